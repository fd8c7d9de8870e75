// Layers that the Vulkan loader adds to every program by itself: overlays, capture tools, Mesa's choice of
// devices.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace towers::vulkan {

struct ImplicitLayer {
    std::string name, manifest;
    std::vector<std::pair<std::string, std::string>> off; ///< environment variables that disable it
};

/// Those of the layers in these manifests that can be disabled, as the loader demands of implicit layers.
std::vector<ImplicitLayer> implicit_layers(const std::vector<std::string>& manifests);

/// Those of the manifests that are not JSON: some loaders start no driver because of one.
std::vector<std::string> damaged(const std::vector<std::string>& manifests);

/// Disables them for this process's loader.
void disable(const std::vector<ImplicitLayer>& layers);

} // namespace towers::vulkan
