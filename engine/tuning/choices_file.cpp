#include "engine/tuning/choices_file.h"

#include "backends/error.h"
#include "engine/files/text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace towers {
namespace {

using nlohmann::json;

constexpr const char* format_name = "choices of launches";
constexpr unsigned format_version = 1;

/// float32 if the object, which an earlier version may have written, says nothing.
Precision precision_in(const json& object, const char* key) {
    const auto name = object.value(key, std::string(name_of(Precision::fp32)));
    const std::optional<Precision> precision = precision_of(name);
    if (!precision)
        throw json::other_error::create(501, fmt::format("{} is no precision", as_printable(name)), &object);
    return *precision;
}

json to_json(const Chosen& chosen) {
    json object{{"variant", chosen.variant}};
    const LaunchConfig& config = chosen.config;
    object["groups"] = {config.groups.x, config.groups.y, config.groups.z};
    object["parts"] = config.splits;
    if (config.tile) object["tile"] = {config.tile->height, config.tile->width, config.tile->threads};
    if (config.winograd_tile != 0) object["winograd_tile"] = config.winograd_tile;
    if (config.operands != Precision::fp32) object["operands"] = name_of(config.operands);
    return object;
}

Chosen chosen_from(const json& object) {
    Chosen chosen{object.at("variant").get<std::string>(), {}};
    LaunchConfig& config = chosen.config;
    const auto groups = object.at("groups").get<std::array<unsigned, 3>>();
    config.groups = {groups[0], groups[1], groups[2]};
    config.splits = object.at("parts").get<unsigned>();
    if (object.contains("tile")) {
        const auto tile = object.at("tile").get<std::array<unsigned, 3>>();
        config.tile = Tile{tile[0], tile[1], tile[2]};
    }
    config.winograd_tile = object.value("winograd_tile", 0u);
    config.operands = precision_in(object, "operands");
    return chosen;
}

} // namespace

DeviceChoices choices_for(const DeviceInfo& info, Precision precision) {
    return {info.id.substr(0, info.id.find(':')),
            as_utf8(info.name),
            as_utf8(info.driver),
            std::string(kernels_version()),
            {},
            precision,
            0};
}

bool is_for(const DeviceChoices& choices, const DeviceChoices& device) {
    return choices.backend == device.backend && choices.name == device.name &&
           choices.precision == device.precision;
}

std::string choices_to_json(std::span<const DeviceChoices> devices) {
    json list = json::array();
    for (const DeviceChoices& device : devices) {
        json launches = json::object();
        for (const auto& [launch, chosen] : device.choices) launches[launch] = to_json(chosen);
        list.push_back({{"backend", device.backend},
                        {"name", device.name},
                        {"driver", device.driver},
                        {"kernels", device.kernels},
                        {"launches", launches}});
        if (device.precision != Precision::fp32) list.back()["precision"] = name_of(device.precision);
        if (device.rank != 0) list.back()["rank"] = device.rank;
    }
    return json{{"format", format_name}, {"version", format_version}, {"devices", list}}.dump(1) + "\n";
}

std::vector<DeviceChoices> choices_from_json(const std::string& text, const std::string& source) {
    try {
        const json file = json::parse(text);
        if (file.at("format") != format_name) throw InputError(fmt::format("{}: has no choices", source));
        if (file.at("version") != format_version)
            throw InputError(
                fmt::format("{}: has choices of another version of this program; tune anew", source));
        std::vector<DeviceChoices> devices;
        for (const json& each : file.at("devices")) {
            DeviceChoices device{each.at("backend").get<std::string>(),
                                 each.at("name").get<std::string>(),
                                 each.at("driver").get<std::string>(),
                                 each.at("kernels").get<std::string>(),
                                 {},
                                 precision_in(each, "precision"),
                                 each.value("rank", 0u)};
            for (const auto& [launch, chosen] : each.at("launches").items())
                device.choices[launch] = chosen_from(chosen);
            devices.push_back(std::move(device));
        }
        return devices;
    } catch (const json::exception& error) {
        throw InputError(fmt::format("{}: is damaged, or has no choices: {}", source, error.what()));
    }
}

} // namespace towers
