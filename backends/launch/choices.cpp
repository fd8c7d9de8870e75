#include "backends/launch/choices.h"

#include "backends/device.h"
#include "backends/parameter_layout.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>

namespace towers {
namespace {

/// By kernel: the bytes of its parameters but the pointers. There may be padding after them.
constexpr std::size_t word_bytes[] = {
#define TOWERS_KERNEL(name, Params, size, items) layout::word_bytes<Params>(),
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

} // namespace

bool alike(const LaunchConfig& a, const LaunchConfig& b) {
    const auto same_tile = [&] {
        return a.tile->height == b.tile->height && a.tile->width == b.tile->width &&
               a.tile->threads == b.tile->threads;
    };
    return a.splits == b.splits && a.winograd_tile == b.winograd_tile &&
           a.tile.has_value() == b.tile.has_value() && (!a.tile || same_tile());
}

std::string to_string(std::string_view variant, const LaunchConfig& config) {
    std::string text(variant);
    if (config.winograd_tile != 0) text += fmt::format(" {0}x{0}", config.winograd_tile);
    if (config.winograd_tile != 0 && config.tile) text += " by";
    if (config.tile) text += fmt::format(" {}x{}", config.tile->height, config.tile->width);
    if (config.splits > 1) text += fmt::format(", {} parts", config.splits);
    return text;
}

std::string key_of(const Launch& launch) {
    constexpr std::uint32_t least_float = 1 << 24; // as a float it is tiny, as a number of something large
    const KernelInfo& kernel = kernel_info(launch.kernel);
    std::string key = kernel.name;
    const std::byte* const words = launch.parameters.bytes.data() + kernel.pointers.size() * 8;
    for (std::size_t at = 0; at < word_bytes[std::size_t(launch.kernel)]; at += 4) {
        std::uint32_t word;
        std::memcpy(&word, words + at, sizeof word);
        key +=
            word < least_float ? fmt::format(" {}", word) : fmt::format(" {}f", std::bit_cast<float>(word));
    }
    return key;
}

const Chosen* find(const Choices* choices, const Launch& launch) {
    if (choices == nullptr || choices->empty()) return nullptr;
    const auto found = choices->find(key_of(launch));
    return found != choices->end() ? &found->second : nullptr;
}

void refuse(const Launch& launch, const Chosen& chosen) {
    throw DeviceError(fmt::format("this device cannot run '{}' as was chosen, by {}; tune it anew",
                                  key_of(launch), to_string(chosen.variant, chosen.config)));
}

std::string_view kernels_version() {
    return
#include "kernels_version.inc"
        ;
}

} // namespace towers
