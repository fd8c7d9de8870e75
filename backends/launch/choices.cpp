#include "backends/launch/choices.h"

#include "backends/device.h"
#include "backends/parameter_layout.h"

#include <algorithm>
#include <bit>
#include <charconv>
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

/// Whether the first number of a block, and so of a key, is the batch.
template<class Params>
consteval bool begins_with_batch() {
    if constexpr (requires(Params p) { p.shape.batch; }) {
        using Shape = decltype(Params::shape);
        return offsetof(Params, shape) == layout::pointer_count<Params> * sizeof(std::uint64_t) &&
               offsetof(Shape, batch) == 0;
    } else {
        return false;
    }
}
/// By kernel
constexpr bool has_batch[] = {
#define TOWERS_KERNEL(name, Params, size, items) begins_with_batch<Params>(),
#define TOWERS_TILED_KERNEL(name, Params, size) TOWERS_KERNEL(name, Params, size, )
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

/// A key in three parts: the kernel, its batch, and all else.
struct KeyParts {
    std::string_view kernel, rest;
    double batch;
};
KeyParts parts_of(std::string_view key) {
    const std::size_t number = key.find(' ') + 1, end = std::min(key.find(' ', number), key.size());
    unsigned batch = 0;
    std::from_chars(key.data() + number, key.data() + end, batch);
    return {key.substr(0, number), key.substr(end), double(batch)};
}

bool same_tiles(const LaunchConfig& a, const LaunchConfig& b) {
    const auto same_tile = [&] {
        return a.tile->height == b.tile->height && a.tile->width == b.tile->width &&
               a.tile->threads == b.tile->threads;
    };
    return a.winograd_tile == b.winograd_tile && a.operands == b.operands &&
           a.tile.has_value() == b.tile.has_value() && (!a.tile || same_tile());
}

} // namespace

bool alike(const LaunchConfig& a, const LaunchConfig& b) { return a.splits == b.splits && same_tiles(a, b); }

std::string to_string(std::string_view variant, const LaunchConfig& config) {
    std::string text(variant);
    if (config.winograd_tile != 0) text += fmt::format(" {0}x{0}", config.winograd_tile);
    if (config.winograd_tile != 0 && config.tile) text += " by";
    if (config.tile) text += fmt::format(" {}x{}", config.tile->height, config.tile->width);
    if (config.operands != Precision::fp32) text += fmt::format(" in {}", name_of(config.operands));
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

NearChoice find_near(const Choices* choices, const Launch& launch) {
    constexpr double farthest = 2;
    NearChoice near{find(choices, launch)};
    const bool none = choices == nullptr || choices->empty();
    if (near.chosen != nullptr || none || !has_batch[std::size_t(launch.kernel)]) return near;
    near.same_batch = false;
    const std::string key = key_of(launch);
    const KeyParts wanted = parts_of(key);
    double least = std::numeric_limits<double>::infinity();
    for (auto at = choices->lower_bound(std::string(wanted.kernel));
         at != choices->end() && at->first.starts_with(wanted.kernel); ++at) {
        const KeyParts parts = parts_of(at->first);
        if (parts.rest != wanted.rest) continue;
        const double times = std::max(parts.batch, wanted.batch) / std::min(parts.batch, wanted.batch);
        if (times > farthest || times >= least) continue;
        least = times;
        near.chosen = &at->second;
    }
    return near;
}

const LaunchConfig* as_chosen(std::span<const LaunchConfig> configs, const NearChoice& near) {
    const LaunchConfig& chosen = near.chosen->config;
    const LaunchConfig* found = nullptr;
    for (const LaunchConfig& config : configs) {
        if (near.same_batch ? !alike(config, chosen) : !same_tiles(config, chosen)) continue;
        // The number of workgroups changes no bits.
        const bool better = found == nullptr ||
                            (near.same_batch ? config.groups == chosen.groups : config.cost < found->cost);
        if (better) found = &config;
    }
    return found;
}

std::string_view kernels_version() {
    return
#include "kernels_version.inc"
        ;
}

} // namespace towers
