#include "apps/towers/report_differences.h"

#include "engine/config/parse.h"
#include "engine/files/text.h"

#include <fmt/format.h>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

namespace towers {
namespace {

using Values = std::map<std::string, std::string>;

std::string text_of(const toml::node& node) {
    if (const auto* const text = node.as_string()) return text->get();
    if (const auto* const number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* const array = node.as_array())
        return listed(*array, [](const toml::node& each) { return text_of(each); });
    std::ostringstream out;
    node.visit([&](const auto& each) { out << each; });
    return out.str();
}

bool has_tables(const toml::array& array) {
    for (const toml::node& each : array)
        if (each.is_table()) return true;
    return false;
}

void flatten(const toml::node& node, const std::string& place, Values& values) {
    const auto below = [&](std::string_view key) {
        return place.empty() ? std::string(key) : fmt::format("{}.{}", place, key);
    };
    if (const auto* const table = node.as_table()) {
        for (const auto& [key, value] : *table) flatten(value, below(std::string_view(key)), values);
    } else if (const auto* const array = node.as_array(); array != nullptr && has_tables(*array)) {
        std::size_t index = 0;
        for (const toml::node& each : *array) {
            const auto* const entry = each.as_table();
            const auto name = entry != nullptr ? (*entry)["name"].value<std::string>() : std::nullopt;
            flatten(each, below(name ? *name : fmt::format("{}", index)), values);
            ++index;
        }
    } else {
        values[place] = as_utf8(text_of(node));
    }
}

/// Rows of the places in which the runs' values differ, or of all.
nlohmann::json rows_of(const std::vector<Values>& runs, bool all) {
    std::set<std::string> places;
    for (const Values& values : runs)
        for (const auto& [place, value] : values) places.insert(place);
    nlohmann::json rows = nlohmann::json::array();
    for (const std::string& place : places) {
        nlohmann::json row{{"name", place}, {"values", nlohmann::json::array()}};
        std::set<std::optional<std::string>> different;
        for (const Values& values : runs) {
            const auto found = values.find(place);
            const bool has = found != values.end();
            different.insert(has ? std::optional(found->second) : std::nullopt);
            row["values"].push_back(has ? nlohmann::json(found->second) : nlohmann::json());
        }
        if (all || different.size() > 1) rows.push_back(std::move(row));
    }
    return rows;
}

} // namespace

std::map<std::string, std::string> flatten_toml(const std::string& text) {
    Values values;
    flatten(parse_tables(text), "", values);
    return values;
}

nlohmann::json settings_table(std::span<const ReportedRun> runs) {
    std::vector<Values> values;
    for (const ReportedRun& run : runs)
        values.push_back(flatten_toml(write_settings(run.settings, Settings::all)));
    return rows_of(values, true);
}

nlohmann::json recipe_differences(std::span<const ReportedRun> runs, std::size_t most) {
    std::vector<Values> values;
    for (const ReportedRun& run : runs) values.push_back(flatten_toml(run.recipe.text));
    nlohmann::json rows = rows_of(values, false);
    const std::size_t all = rows.size();
    if (all > most) rows.erase(rows.begin() + std::ptrdiff_t(most), rows.end());
    return {{"rows", std::move(rows)}, {"all", all}};
}

} // namespace towers
