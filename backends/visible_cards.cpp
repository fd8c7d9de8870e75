#include "backends/visible_cards.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace towers {
namespace {

constexpr std::size_t least_digits = 8; // of a UUID that is cut short, so that it means one card

/// As CUDA's tools write it: `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`
std::string text_of(const decltype(DeviceInfo::uuid)& uuid) {
    std::string text = "GPU";
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        const bool begins_part = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        text += fmt::format("{}{:02x}", begins_part ? "-" : "", uuid[i]);
    }
    return text;
}

/// Whether the list names the card by its UUID, or by how that begins. CUDA reads such a list until the first
/// entry that is something else.
bool names(std::string_view list, const DeviceInfo& card) {
    const std::string_view begin = "GPU-";
    while (list.starts_with(begin)) {
        const std::string_view entry = list.substr(0, list.find(','));
        if (entry.size() >= begin.size() + least_digits && text_of(card.uuid).starts_with(entry)) return true;
        list.remove_prefix(std::min(entry.size() + 1, list.size()));
    }
    return false;
}

} // namespace

std::string why_withheld(const DeviceInfo& device, const Backend::Listing& cuda, const char* variable) {
    const auto is_this = [&](const auto& shown) {
        return shown.uuid == device.uuid && shown.uuid != decltype(shown.uuid){};
    };
    // CUDA's own devices may lack a UUID.
    if (std::ranges::find(cuda.devices, device.id, &DeviceInfo::id) != cuda.devices.end()) return "";
    if (device.vendor != nvidia || std::ranges::any_of(cuda.devices, is_this) ||
        std::ranges::any_of(cuda.left_out, is_this))
        return "";
    if (variable != nullptr && cuda.devices.empty() && names(variable, device)) return "";
    if (variable != nullptr) return "CUDA_VISIBLE_DEVICES is set, and CUDA does not show this card";
    if (!cuda.devices.empty()) return "CUDA shows other cards or a part of this one (MIG), but not the card";
    return "";
}

} // namespace towers
