// Rules by which a layer or runtime for tests fails: texts in an environment variable, separated by
// semicolons.
//
// CALL[@DEVICE][#COUNT][?FILE]=HOW
// - CALL: a function; `*` stands for any letters
// - DEVICE: part of the device's name; without it: all devices, and calls of no device
// - COUNT: `3` for the third of these calls in a process, `3+` also for all later ones; without it: all
// - FILE: the rule holds while this file exists
//
// The variable TOWERS_BROKEN_LOG names a file for the first, second, fourth, eighth ... of each call of each
// device in a process, as the left sides of rules.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <fnmatch.h>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace towers::test {

inline std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

class Rules {
public:
    /// Of this variable. `is_known`: whether a rule's subject, perhaps with `*`, fits something; another rule
    /// ends the program.
    Rules(const char* variable, std::function<bool(const std::string& subject)> is_known)
        : variable_(variable), is_known_(std::move(is_known)) {
        std::istringstream texts(environment(variable));
        for (std::string text; std::getline(texts, text, ';');)
            if (!text.empty()) add(text);
    }

    void add(const std::string& text) {
        const std::lock_guard lock(mutex_);
        const std::size_t end = text.find('=');
        Rule rule;
        rule.subject = text.substr(0, end);
        const auto cut = [&](char mark) {
            const std::size_t place = rule.subject.find(mark);
            const std::string part = place != rule.subject.npos ? rule.subject.substr(place + 1) : "";
            rule.subject.resize(std::min(place, rule.subject.size()));
            return part;
        };
        rule.file = cut('?');
        const std::string number = cut('#');
        rule.device = cut('@');
        if (end == text.npos || !is_known_(rule.subject)) {
            std::fprintf(stderr, "%s: the rule '%s' is wrong\n", variable_.c_str(), text.c_str());
            std::abort();
        }
        rule.how = text.substr(end + 1);
        if (!number.empty()) rule.first = unsigned(std::stoul(number));
        if (!number.empty() && !number.ends_with('+')) rule.last = rule.first;
        rules_.push_back(std::move(rule));
    }
    void clear() {
        const std::lock_guard lock(mutex_);
        rules_.clear();
    }

    /// Logs and counts the call. The HOWs of the rules that hold for it. `device`: empty for calls of none.
    std::vector<std::string> now(const std::string& call, const std::string& device) {
        const std::lock_guard lock(mutex_);
        log(call, device);
        std::vector<std::string> hows;
        for (Rule& rule : rules_) {
            if (fnmatch(rule.subject.c_str(), call.c_str(), 0) != 0 || !rule.concerns(device)) continue;
            const unsigned count = ++rule.count;
            if (count < rule.first || count > rule.last) continue;
            if (rule.file.empty() || access(rule.file.c_str(), F_OK) == 0) hows.push_back(rule.how);
        }
        return hows;
    }

    /// What a rule says of this subject, which is no call.
    std::optional<std::string> value_of(const std::string& subject, const std::string& device) {
        const std::lock_guard lock(mutex_);
        for (const Rule& rule : rules_)
            if (rule.subject == subject && rule.concerns(device)) return rule.how;
        return {};
    }

private:
    struct Rule {
        std::string subject, device, file, how;
        unsigned first = 1, last = UINT_MAX, count = 0;

        bool concerns(const std::string& whose) const { return whose.find(device) != whose.npos; }
    };

    void log(const std::string& call, const std::string& device) {
        if (log_.empty()) return;
        const unsigned count = ++counts_[{call, device}];
        if (!std::has_single_bit(count)) return;
        const std::string line =
            call + (device.empty() ? "" : "@" + device) + "#" + std::to_string(count) + "\n";
        const int descriptor = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        [[maybe_unused]] const ssize_t written = write(descriptor, line.data(), line.size());
        close(descriptor);
    }

    std::string variable_, log_ = environment("TOWERS_BROKEN_LOG");
    std::function<bool(const std::string&)> is_known_;
    std::mutex mutex_;
    std::deque<Rule> rules_;
    std::map<std::pair<std::string, std::string>, unsigned> counts_;
};

} // namespace towers::test
