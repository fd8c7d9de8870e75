#include "tests/broken_vulkan/rules.h"

#include "tests/support/misbehave.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <fnmatch.h>
#include <map>
#include <mutex>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace towers::test {
namespace {

#define TOWERS_CALL(name) #name,
constexpr const char* commands[] = {
#include "commands.inc"
    "vkCreateInstance", "vkNegotiateLoaderLayerInterfaceVersion"};
#undef TOWERS_CALL

[[noreturn]] void refuse(const std::string& rule) {
    std::fprintf(stderr, "broken_vulkan: the rule '%s' is wrong\n", rule.c_str());
    std::abort();
}

struct Rule {
    std::string subject, device, file, value; ///< subject: a call or an ability
    unsigned first = 1, last = UINT_MAX;
    std::atomic<unsigned> count = 0;

    explicit Rule(const std::string& text) {
        std::size_t end = text.find('=');
        if (end == text.npos) refuse(text);
        value = text.substr(end + 1);
        subject = text.substr(0, end);
        const auto cut = [&](char mark) {
            const std::size_t place = subject.find(mark);
            const std::string part = place != subject.npos ? subject.substr(place + 1) : "";
            subject.resize(std::min(place, subject.size()));
            return part;
        };
        file = cut('?');
        const std::string number = cut('#');
        device = cut('@');
        if (subject.starts_with("vk") && !std::ranges::any_of(commands, [&](const char* command) {
                return fnmatch(subject.c_str(), command, 0) == 0;
            }))
            refuse(text);
        if (number.empty()) return;
        first = unsigned(std::stoul(number));
        if (!number.ends_with('+')) last = first;
    }

    bool concerns(const std::string& whose) const { return whose.find(device) != whose.npos; }
};

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::deque<Rule>& rules() {
    static std::deque<Rule> rules = [] {
        std::deque<Rule> all;
        std::istringstream texts(environment("TOWERS_BROKEN_VULKAN"));
        for (std::string text; std::getline(texts, text, ';');)
            if (!text.empty()) all.emplace_back(text);
        return all;
    }();
    return rules;
}

void log(const std::string& call, const std::string& device) {
    static const std::string file = environment("TOWERS_BROKEN_LOG");
    if (file.empty()) return;
    static std::mutex mutex;
    static std::map<std::pair<std::string, std::string>, unsigned> counts;
    const std::lock_guard lock(mutex);
    const unsigned count = ++counts[{call, device}];
    if (!std::has_single_bit(count)) return;
    const std::string line = call + (device.empty() ? "" : "@" + device) + "#" + std::to_string(count) + "\n";
    const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    [[maybe_unused]] const ssize_t written = write(descriptor, line.data(), line.size());
    close(descriptor);
}

} // namespace

VkResult disturb(const std::string& call, const std::string& device) {
    log(call, device);
    for (Rule& rule : rules()) {
        if (fnmatch(rule.subject.c_str(), call.c_str(), 0) != 0 || !rule.concerns(device)) continue;
        const unsigned count = ++rule.count;
        if (count < rule.first || count > rule.last) continue;
        if (!rule.file.empty() && access(rule.file.c_str(), F_OK) != 0) continue;
        if (const VkResult result = misbehave(rule.value); result != VK_SUCCESS) return result;
    }
    return VK_SUCCESS;
}

std::optional<std::string> value_of(const std::string& ability, const std::string& device) {
    for (const Rule& rule : rules())
        if (rule.subject == ability && rule.concerns(device)) return rule.value;
    return {};
}

unsigned long long number(const std::string& text) {
    char* unit = nullptr;
    const unsigned long long number = std::strtoull(text.c_str(), &unit, 0);
    switch (*unit) {
    case 'K':
        return number << 10;
    case 'M':
        return number << 20;
    case 'G':
        return number << 30;
    default:
        return number;
    }
}

} // namespace towers::test
