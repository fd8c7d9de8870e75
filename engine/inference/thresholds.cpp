#include "engine/inference/thresholds.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/files/output.h"
#include "engine/files/text.h"
#include "engine/inference/multilabel_report.h"

#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

namespace towers {
namespace {

using Json = nlohmann::ordered_json;

bool is_threshold(double value) { return value >= 0 && value <= 1; }

std::optional<double> number_in(const std::string& text) {
    double value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && rest == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw InputError(as_printable(fmt::format("{} {}", path, what)));
}

Json read_object(const std::string& path) {
    const Json json = Json::parse(read_file(path), nullptr, false);
    if (!json.is_object())
        refuse(path,
               "is no file of thresholds, a JSON object with a number from 0 to 1 for each class, such as "
               "'eval --best-thresholds' writes; or give one number for all classes");
    return json;
}

} // namespace

std::vector<double> read_thresholds(const std::string& text, const std::vector<std::string>& classes) {
    if (text.empty()) return std::vector<double>(classes.size(), usual_threshold);
    if (const std::optional<double> number = number_in(text)) {
        if (!is_threshold(*number))
            throw UsageError(fmt::format("--threshold {}: give a probability from 0 to 1, or a file", text));
        return std::vector<double>(classes.size(), *number);
    }
    const Json json = read_object(text);
    std::set<std::string> known;
    for (const std::string& name : classes) known.insert(as_utf8(name));
    for (const auto& [name, value] : json.items())
        if (!known.contains(name))
            refuse(text, fmt::format("has a threshold for '{}', which is none of the {} classes; remove it",
                                     name, classes.size()));
    std::vector<double> thresholds;
    for (const std::string& name : classes) {
        const auto found = json.find(as_utf8(name));
        if (found == json.end()) refuse(text, fmt::format("has no threshold for class '{}'; add it", name));
        if (!found->is_number() || !is_threshold(found->get<double>()))
            refuse(text, fmt::format("has {} for class '{}'; give a probability from 0 to 1",
                                     found->dump(-1, ' ', false, Json::error_handler_t::replace), name));
        thresholds.push_back(found->get<double>());
    }
    return thresholds;
}

void write_thresholds(const std::filesystem::path& path, std::span<const double> thresholds,
                      const std::vector<std::string>& classes) {
    Json json = Json::object();
    for (std::size_t i = 0; i < thresholds.size(); ++i) json[as_utf8(classes[i])] = thresholds[i];
    write_output(path, json.dump(1) + '\n');
}

} // namespace towers
