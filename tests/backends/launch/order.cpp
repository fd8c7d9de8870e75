#include "backends/launch/order.h"

#include <doctest/doctest.h>
#include <random>
#include <vector>

namespace towers {
namespace {

Footprint reads(std::uint64_t begin, std::uint64_t end) { return {.bytes = {{begin, end, false}}}; }
Footprint writes(std::uint64_t begin, std::uint64_t end) { return {.bytes = {{begin, end, true}}}; }

using Numbers = std::vector<std::size_t>;

/// What the last of these commands comes after, with a barrier between each two.
Numbers last_of(const std::vector<Footprint>& footprints) {
    CommandOrder order;
    Numbers last;
    for (const Footprint& each : footprints) {
        last = order.add(each);
        order.barrier();
    }
    return last;
}

} // namespace

TEST_CASE("commands keep their order if one writes a byte that the other touches, and only then") {
    CHECK(last_of({writes(0, 4), reads(3, 8)}) == Numbers{0});
    CHECK(last_of({reads(3, 8), writes(0, 4)}) == Numbers{0});
    CHECK(last_of({writes(0, 4), writes(3, 8)}) == Numbers{0});
    CHECK(last_of({reads(0, 4), reads(0, 4)}).empty());
    CHECK(last_of({writes(0, 4), writes(4, 8)}).empty());
    const Footprint unknown{.bytes = {}, .known = false};
    CHECK(last_of({unknown, reads(0, 4)}) == Numbers{0});
    CHECK(last_of({reads(0, 4), unknown}) == Numbers{0});
    CommandOrder order;
    order.add(writes(0, 4));
    CHECK(order.add(writes(0, 4)).empty()); // no barrier between them
    order.barrier();
    CHECK(order.add(writes(0, 4)) == Numbers{1, 0});
}

TEST_CASE("an order that others imply is left out") {
    CHECK(last_of({writes(0, 4), writes(0, 4), reads(0, 4)}) == Numbers{1});
    CHECK(last_of({writes(0, 8), reads(0, 4), reads(4, 8), writes(0, 8)}) == Numbers{2, 1});
    CHECK(last_of({writes(0, 8), reads(0, 4), {.bytes = {{0, 4, true}, {8, 9, true}}}, reads(4, 9)}) ==
          Numbers{2});
}

TEST_CASE("the order of random commands is the one that their bytes need, with no edge too many") {
    std::mt19937 random(1);
    const auto touch_same = [](const Footprint& a, const Footprint& b) {
        for (const auto& one : a.bytes)
            for (const auto& other : b.bytes)
                for (std::uint64_t at = one.begin; at < one.end; ++at)
                    if ((one.written || other.written) && other.begin <= at && at < other.end) return true;
        return !a.known || !b.known;
    };
    for (int trial = 0; trial < 50; ++trial) {
        CommandOrder order;
        std::vector<Footprint> footprints;
        std::vector<unsigned> levels;
        std::vector<std::vector<bool>> comes_after;
        unsigned level = 0;
        for (std::size_t i = 0; i < 40; ++i) {
            if (random() % 2 == 0) {
                order.barrier();
                ++level;
            }
            levels.push_back(level);
            Footprint& footprint =
                footprints.emplace_back(Footprint{.bytes = {}, .known = random() % 20 != 0});
            for (int part = 0; part < 3; ++part) {
                const std::uint64_t begin = random() % 60;
                footprint.bytes.push_back({begin, begin + 1 + random() % 6, random() % 3 == 0});
            }
            std::vector<bool>& after = comes_after.emplace_back(i, false);
            bool needed = true;
            for (const std::size_t each : order.add(footprint)) {
                needed &= !after[each] && levels[each] < level && touch_same(footprints[each], footprint);
                after[each] = true;
                for (std::size_t k = 0; k < each; ++k)
                    if (comes_after[each][k]) after[k] = true;
            }
            CHECK(needed);
            bool complete = true;
            for (std::size_t k = 0; k < i; ++k)
                complete &= after[k] || levels[k] == level || !touch_same(footprints[k], footprint);
            CHECK(complete);
        }
    }
}

} // namespace towers
