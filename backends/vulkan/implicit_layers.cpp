#include "backends/vulkan/implicit_layers.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace towers::vulkan {

std::vector<ImplicitLayer> implicit_layers(const std::vector<std::string>& manifests) {
    using nlohmann::json;
    std::vector<ImplicitLayer> found;
    for (const std::string& manifest : manifests) {
        std::ifstream file(manifest);
        const json all = json::parse(file, nullptr, false);
        if (!all.is_object()) continue; // the loader ignores it, too
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

void disable(const std::vector<ImplicitLayer>& layers) {
    for (const ImplicitLayer& layer : layers)
        for (const auto& [variable, value] : layer.off) setenv(variable.c_str(), value.c_str(), 1);
}

} // namespace towers::vulkan
