#include "backends/vulkan/implicit_layers.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace towers::vulkan {

namespace {

using nlohmann::json;

/// Discarded if it is not JSON
json parse(const std::string& manifest) {
    std::ifstream file(manifest);
    return json::parse(file, nullptr, false);
}

} // namespace

std::vector<ImplicitLayer> implicit_layers(const std::vector<std::string>& manifests) {
    std::vector<ImplicitLayer> found;
    for (const std::string& manifest : manifests) {
        const json all = parse(manifest);
        if (!all.is_object()) continue;
        json layers = all.value("layers", json());
        if (!layers.is_array()) layers = json::array();
        if (all.contains("layer")) layers.push_back(all["layer"]);
        for (const json& layer : layers) {
            if (!layer.is_object()) continue;
            const json name = layer.value("name", json()), off = layer.value("disable_environment", json());
            if (!name.is_string() || !off.is_object()) continue;
            found.push_back({name, manifest, {}});
            for (const auto& [variable, value] : off.items())
                found.back().off.emplace_back(variable, value.is_string() ? std::string(value) : "1");
        }
    }
    return found;
}

std::vector<std::string> damaged(const std::vector<std::string>& manifests) {
    std::vector<std::string> found;
    for (const std::string& manifest : manifests)
        if (parse(manifest).is_discarded()) found.push_back(manifest);
    return found;
}

void disable(const std::vector<ImplicitLayer>& layers) {
    for (const ImplicitLayer& layer : layers)
        for (const auto& [variable, value] : layer.off) setenv(variable.c_str(), value.c_str(), 1);
}

} // namespace towers::vulkan
