// A card's largest heap must be used, as `towers devices` promises, in whatever order a driver lists its
// memory.
#include "backends/vulkan/memory_types.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <utility>
#include <vector>

namespace {

using Property = vk::MemoryPropertyFlagBits;
constexpr vk::MemoryPropertyFlags local = Property::eDeviceLocal,
                                  visible = Property::eHostVisible | Property::eHostCoherent,
                                  cached = visible | Property::eHostCached;
constexpr std::uint64_t mebi = 1 << 20, gibi = 1 << 30;

struct Type {
    unsigned heap;
    vk::MemoryPropertyFlags properties;
};

struct Card {
    const char* what;
    std::vector<std::uint64_t> heaps;
    std::vector<Type> types;
    Type device, staging; ///< that are to be chosen
};

/// With its types and heaps in these orders
vk::PhysicalDeviceMemoryProperties shown(const Card& card, const std::vector<unsigned>& types, bool turned) {
    vk::PhysicalDeviceMemoryProperties memory;
    const auto place = [&](unsigned heap) { return turned ? unsigned(card.heaps.size()) - 1 - heap : heap; };
    for (unsigned i = 0; i < card.heaps.size(); ++i) memory.memoryHeaps[place(i)].size = card.heaps[i];
    memory.memoryHeapCount = unsigned(card.heaps.size());
    for (const unsigned i : types)
        memory.memoryTypes[memory.memoryTypeCount++] = {card.types[i].properties, place(card.types[i].heap)};
    return memory;
}

} // namespace

TEST_CASE("buffers go to the largest heap of the card and to memory that the host reads fast") {
    const vk::MemoryPropertyFlags exotic =
                                      local | Property::eDeviceUncachedAMD | Property::eDeviceCoherentAMD,
                                  lazy = local | Property::eLazilyAllocated, none{};
    const Card cards[] = {
        {"one heap for all", {2 * gibi}, {{0, local | cached}}, {0, local | cached}, {0, local | cached}},
        {"a card with a window of 256 MiB",
         {8 * gibi, 16 * gibi, 256 * mebi},
         {{2, local | visible}, {0, local}, {1, none}, {1, visible}, {1, cached}},
         {0, local},
         {1, cached}},
        {"a card that the host sees as a whole",
         {8 * gibi, 4 * gibi},
         {{0, local | visible}, {0, local}, {1, visible}, {1, cached}},
         {0, local},
         {1, cached}},
        {"the same without cached memory",
         {8 * gibi, 4 * gibi},
         {{0, local | visible}, {0, local}, {1, visible}},
         {0, local},
         {1, visible}},
        {"an integrated one with a small heap of its own",
         {512 * mebi, 12 * gibi},
         {{0, local}, {0, local | visible}, {1, cached}},
         {0, local},
         {1, cached}},
        {"an integrated one with two heaps of its own",
         {3 * gibi, 9 * gibi},
         {{0, local}, {1, local | visible}, {1, local | cached}},
         {1, local | visible},
         {1, local | cached}},
        {"types that need features",
         {8 * gibi, 16 * gibi},
         {{0, lazy}, {0, exotic}, {0, local}, {1, exotic | cached}, {1, cached}},
         {0, local},
         {1, cached}}};
    for (const Card& card : cards) {
        CAPTURE(card.what);
        std::vector<unsigned> order(card.types.size());
        std::iota(order.begin(), order.end(), 0u);
        do
            for (const bool turned : {false, true}) {
                const vk::PhysicalDeviceMemoryProperties memory = shown(card, order, turned);
                const auto is = [&](std::uint32_t chosen, const Type& expected) {
                    return memory.memoryTypes[chosen].propertyFlags == expected.properties &&
                           memory.memoryHeaps[memory.memoryTypes[chosen].heapIndex].size ==
                               card.heaps[expected.heap];
                };
                const towers::vulkan::MemoryTypes types = towers::vulkan::choose_memory_types(memory);
                CHECK(is(types.device, card.device));
                CHECK(is(types.staging, card.staging));
            }
        while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST_CASE("only memory that the driver allows for buffers is chosen") {
    const Card card{
        "", {8 * gibi, 2 * gibi, gibi}, {{0, local}, {1, local}, {2, cached}, {2, visible}}, {}, {}};
    const vk::PhysicalDeviceMemoryProperties memory = shown(card, {0, 1, 2, 3}, false);
    using towers::vulkan::choose_memory_types;
    CHECK(choose_memory_types(memory).device == 0);
    CHECK(choose_memory_types(memory, 0b1110).device == 1);
    CHECK(choose_memory_types(memory, 0b1111).staging == 2);
    CHECK(choose_memory_types(memory, 0b1011).staging == 3);
}
