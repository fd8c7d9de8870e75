#include "backends/visible_cards.h"

#include <algorithm>

namespace towers {

std::string why_withheld(const DeviceInfo& device, const Backend::Listing& cuda, const char* variable) {
    const auto is_this = [&](const auto& shown) {
        return shown.uuid == device.uuid && shown.uuid != decltype(shown.uuid){};
    };
    // CUDA's own devices may lack a UUID.
    if (std::ranges::find(cuda.devices, device.id, &DeviceInfo::id) != cuda.devices.end()) return "";
    if (device.vendor != nvidia || std::ranges::any_of(cuda.devices, is_this) ||
        std::ranges::any_of(cuda.left_out, is_this))
        return "";
    if (variable != nullptr) return "CUDA_VISIBLE_DEVICES is set, and CUDA does not show this card";
    if (!cuda.devices.empty()) return "CUDA shows other cards or a part of this one (MIG), but not the card";
    return "";
}

} // namespace towers
