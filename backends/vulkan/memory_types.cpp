#include "backends/vulkan/memory_types.h"

#include <bit>
#include <optional>
#include <tuple>

namespace towers::vulkan {
namespace {

using Property = vk::MemoryPropertyFlagBits;

constexpr vk::MemoryPropertyFlags visible = Property::eHostVisible | Property::eHostCoherent;

/// The type of the highest rank, and of equal ones the first: drivers list the faster ones first.
template<class Rank>
std::uint32_t best(const vk::PhysicalDeviceMemoryProperties& memory, std::uint32_t allowed, Rank&& rank_of) {
    std::uint32_t chosen = 0;
    std::optional<decltype(rank_of(memory.memoryTypes[0]))> highest;
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
        if ((allowed >> i & 1u) == 0) continue;
        const auto rank = rank_of(memory.memoryTypes[i]);
        if (highest && !(*highest < rank)) continue;
        highest = rank;
        chosen = i;
    }
    return chosen;
}

} // namespace

MemoryTypes choose_memory_types(const vk::PhysicalDeviceMemoryProperties& memory, std::uint32_t allowed) {
    const auto has = [](const vk::MemoryType& type, vk::MemoryPropertyFlags wanted) {
        return (type.propertyFlags & wanted) == wanted;
    };
    // Types with other properties need features that this program does not ask for.
    const auto is_plain = [](const vk::MemoryType& type) {
        return !(type.propertyFlags & ~(Property::eDeviceLocal | visible | Property::eHostCached));
    };
    const auto heap_bytes = [&](const vk::MemoryType& type) {
        return memory.memoryHeaps[type.heapIndex].size;
    };
    return {.device = best(memory, allowed,
                           [&](const vk::MemoryType& type) {
                               const auto properties = VkMemoryPropertyFlags(type.propertyFlags);
                               return std::tuple(is_plain(type), has(type, Property::eDeviceLocal),
                                                 heap_bytes(type), -std::popcount(properties));
                           }),
            // The host reads cached memory many times faster, and a card's own many times slower.
            .staging = best(memory, allowed, [&](const vk::MemoryType& type) {
                return std::tuple(is_plain(type), has(type, visible), has(type, Property::eHostCached),
                                  !has(type, Property::eDeviceLocal), heap_bytes(type));
            })};
}

} // namespace towers::vulkan
