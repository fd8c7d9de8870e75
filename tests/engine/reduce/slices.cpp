#include "engine/reduce/slices.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"

#include <algorithm>
#include <cstddef>
#include <doctest/doctest.h>
#include <random>
#include <vector>

namespace towers {
namespace {

constexpr std::size_t alignment = 256;

/// Checks that the slices are the buckets, each byte once, in their order.
void check_whole(const std::vector<Slice>& slices, const std::vector<ArenaRange>& buckets, unsigned ranks) {
    std::size_t next = 0;
    for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
        std::size_t at = buckets[bucket].offset, largest = 0, least = SIZE_MAX;
        std::vector<bool> has(ranks);
        for (; next < slices.size() && slices[next].bucket == bucket; ++next) {
            const Slice& slice = slices[next];
            CHECK(slice.range.offset == at);
            CHECK(slice.range.offset % alignment == 0);
            CHECK(slice.range.bytes > 0);
            REQUIRE(slice.owner < ranks);
            CHECK_FALSE(has[slice.owner]);
            has[slice.owner] = true;
            at += slice.range.bytes;
            largest = std::max(largest, slice.range.bytes);
            least = std::min(least, slice.range.bytes);
        }
        CHECK(at == buckets[bucket].offset + buckets[bucket].bytes);
        CHECK(largest - least <= alignment);
    }
    CHECK(next == slices.size());
}

std::size_t bytes_of(const std::vector<Slice>& slices, unsigned rank) {
    std::size_t bytes = 0;
    for (const Slice& slice : slices)
        if (slice.owner == rank) bytes += slice.range.bytes;
    return bytes;
}

} // namespace

TEST_CASE("each byte of the buckets has one owner, and a bucket's slices are of nearly the same size") {
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
        CAPTURE(i);
        std::vector<ArenaRange> buckets;
        std::size_t offset = 0;
        for (unsigned k = 1 + random() % 12; k > 0; --k) {
            const std::size_t bytes = alignment * (1 + random() % (random() % 3 == 0 ? 8 : 3000));
            buckets.push_back({offset, bytes});
            offset += bytes;
        }
        const unsigned ranks = 1 + random() % 9;
        check_whole(deal_slices(buckets, ranks, false), buckets, ranks);
        const std::vector<Slice> whole = deal_slices(buckets, ranks, true);
        check_whole(whole, buckets, ranks);
        CHECK(whole.size() == buckets.size());
        for (const Slice& slice : whole) CHECK(slice.owner == 0);
    }
}

TEST_CASE("small buckets are not cut, and their owners take turns") {
    const std::vector<ArenaRange> buckets{{0, 256}, {256, 8192}, {8448, 16128}, {24576, 16384}, {40960, 256}};
    std::vector<unsigned> owners;
    for (const Slice& slice : deal_slices(buckets, 4, false)) owners.push_back(slice.owner);
    CHECK(owners == std::vector{0u, 1u, 2u, 3u, 0u, 1u});
}

TEST_CASE("a slice is cut at an offset that lies in it") {
    const std::vector<Slice> slices{{{0, 256}, 0, 1}, {{256, 1024}, 1, 0}, {{1280, 256}, 1, 1}};
    const auto ranges_of = [&](std::size_t offset) {
        std::vector<ArenaRange> ranges;
        for (const Slice& slice : cut_at(offset, slices)) ranges.push_back(slice.range);
        return ranges;
    };
    const std::vector<ArenaRange> whole{{0, 256}, {256, 1024}, {1280, 256}};
    for (const std::size_t offset : {0, 256, 1280, 1536, 2048}) CHECK(ranges_of(offset) == whole);
    CHECK(ranges_of(512) == std::vector<ArenaRange>{{0, 256}, {256, 256}, {512, 768}, {1280, 256}});
    CHECK(cut_at(512, slices)[2].bucket == 1);
    CHECK(cut_at(512, slices)[2].owner == 0);
}

TEST_CASE("every rank gets an equal part of a network") {
    const Recipe recipe = find_recipe("imagenet-resnet18", {});
    const StateLayout layout = layout_of(recipe);
    const std::vector<ArenaRange> buckets = make_buckets(layout, bucket_bytes(layout));
    for (const unsigned ranks : {1u, 2u, 3u, 4u, 16u}) {
        CAPTURE(ranks);
        const std::vector<Slice> slices = deal_slices(buckets, ranks, false);
        check_whole(slices, buckets, ranks);
        std::size_t all = 0;
        for (unsigned rank = 0; rank < ranks; ++rank) {
            CHECK(double(bytes_of(slices, rank)) ==
                  doctest::Approx(double(layout.updated_bytes) / ranks).epsilon(0.01));
            all += bytes_of(slices, rank);
        }
        CHECK(all == layout.updated_bytes);
    }
}

} // namespace towers
