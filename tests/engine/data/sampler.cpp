#include "engine/data/sampler.h"
#include "engine/data/philox.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

namespace towers {

namespace {

std::vector<Example> stream(std::uint32_t records, std::uint64_t seed, bool shuffle, std::uint64_t first,
                            std::size_t count) {
    std::vector<Example> examples(count);
    Sampler(records, seed, shuffle).fill(first, examples);
    return examples;
}

std::vector<std::uint32_t> records_of(const std::vector<Example>& examples) {
    std::vector<std::uint32_t> records;
    for (const Example& example : examples) records.push_back(example.record);
    return records;
}

} // namespace

TEST_CASE("an epoch shows every record once") {
    for (const std::uint32_t records : {1u, 2u, 13u, 1000u}) {
        CAPTURE(records);
        for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
            const auto examples = stream(records, 7, true, epoch * records, records);
            CHECK(std::all_of(examples.begin(), examples.end(),
                              [&](const Example& example) { return example.epoch == epoch; }));
            std::vector<std::uint32_t> sorted = records_of(examples), expected(records);
            std::sort(sorted.begin(), sorted.end());
            std::iota(expected.begin(), expected.end(), 0u);
            CHECK(sorted == expected);
        }
    }
}

TEST_CASE("a run resumed at any position sees the same examples as an unbroken run") {
    constexpr std::uint32_t records = 37;
    const auto whole = stream(records, 99, true, 0, 500);
    for (std::size_t first = 0; first < whole.size(); first += 11) {
        CAPTURE(first);
        const auto rest = stream(records, 99, true, first, whole.size() - first);
        CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + std::ptrdiff_t(first)));
    }
}

TEST_CASE("neither the batch size nor jumps back and ahead change the stream") {
    const auto whole = stream(37, 99, true, 0, 600);
    Sampler sampler(37, 99, true);
    for (const std::size_t batch : {1u, 8u, 37u, 50u, 200u}) // the largest span several epochs
        for (std::size_t first = 0; first + batch <= whole.size(); first += batch) {
            std::vector<Example> part(batch);
            sampler.fill(first, part);
            REQUIRE(std::equal(part.begin(), part.end(), whole.begin() + std::ptrdiff_t(first)));
        }
}

TEST_CASE("each epoch and each seed has its own order") {
    const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
        return records_of(stream(100, seed, true, epoch * 100, 100));
    };
    CHECK(order(1, 0) != order(1, 1));
    CHECK(order(1, 1) != order(1, 2));
    CHECK(order(1, 0) != order(2, 0));
    CHECK(order(1, 0) != order(1ull << 32 | 1, 0)); // the seed's upper half counts
}

TEST_CASE("every place in an epoch is equally likely for every record") {
    constexpr std::uint32_t records = 8, epochs = 8000;
    const auto examples = stream(records, 5, true, 0, std::size_t(records) * epochs);
    unsigned counts[records][records] = {};
    for (std::size_t p = 0; p < examples.size(); ++p) ++counts[p % records][examples[p].record];
    double chi_square = 0;
    for (const auto& row : counts)
        for (const unsigned count : row) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
    CHECK(chi_square < 110); // 49 degrees of freedom: 49 +- 10
    CHECK(chi_square > 15);
}

TEST_CASE("without shuffling the records keep their order") {
    const auto examples = stream(3, 5, false, 2, 6);
    const std::vector<Example> expected = {{0, 2, 0}, {0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {0, 0, 2}, {0, 1, 2}};
    CHECK(examples == expected);
}

namespace {

/// 40, 7, 2 and 1 records of four classes, mixed.
std::vector<std::uint32_t> unequal_labels() {
    std::vector<std::uint32_t> labels(50, 0);
    for (const std::uint32_t record : {3u, 9u, 20u, 21u, 33u, 40u, 49u}) labels[record] = 1;
    labels[0] = labels[48] = 2;
    labels[30] = 3;
    return labels;
}

std::vector<Example> balanced(std::uint64_t seed, bool shuffle, std::uint64_t first, std::size_t count) {
    std::vector<Example> examples(count);
    Sampler(unequal_labels(), seed, shuffle).fill(first, examples);
    return examples;
}

} // namespace

TEST_CASE(
    "a balanced sampler shows each class once in every block, and all examples of a class equally often") {
    const std::vector<std::uint32_t> labels = unequal_labels();
    constexpr std::size_t blocks = 40 * 7; // whole passes over every class
    const std::vector<Example> examples = balanced(7, true, 0, 4 * blocks);
    std::map<std::uint32_t, unsigned> shown;
    std::set<std::pair<std::uint32_t, std::uint32_t>> draws;
    for (std::size_t block = 0; block < blocks; ++block) {
        std::set<std::uint32_t> classes;
        for (const Example& each : std::span(examples).subspan(block * 4, 4)) {
            classes.insert(labels[each.record]);
            ++shown[each.record];
            // Else an image would be distorted twice in the same way.
            CHECK(draws.emplace(each.record, each.epoch).second);
        }
        CHECK(classes.size() == 4);
    }
    const unsigned times[] = {7, 40, 140, 280};
    for (std::uint32_t record = 0; record < labels.size(); ++record)
        CHECK(shown[record] == times[labels[record]]);
}

TEST_CASE("neither the batch size nor jumps change a balanced sampler's stream, but each seed has its own") {
    const std::vector<Example> whole = balanced(99, true, 0, 600);
    Sampler sampler(unequal_labels(), 99, true);
    for (const std::size_t batch : {1u, 3u, 8u, 50u, 200u})
        for (std::size_t first = 0; first + batch <= whole.size(); first += batch) {
            std::vector<Example> part(batch);
            sampler.fill(first, part);
            REQUIRE(std::equal(part.begin(), part.end(), whole.begin() + std::ptrdiff_t(first)));
        }
    CHECK(balanced(99, true, 17, 300) == std::vector<Example>(whole.begin() + 17, whole.begin() + 317));
    CHECK(balanced(98, true, 0, 600) != whole);
    CHECK(balanced(1ull << 32 | 99, true, 0, 600) != whole);
    // Blocks have orders of their own, also where their number has more than 32 bits.
    CHECK(records_of(balanced(99, true, 4ull * 280 << 32, 400)) != records_of(balanced(99, true, 0, 400)));
}

TEST_CASE("without shuffling a balanced sampler takes classes and their records in order") {
    const std::vector<Example> examples = balanced(5, false, 2, 8);
    const std::vector<Example> expected = {{0, 0, 0},  {0, 30, 0}, {0, 2, 0}, {0, 9, 0},
                                           {0, 48, 0}, {0, 30, 1}, {0, 4, 0}, {0, 20, 0}};
    std::vector<Example> all = balanced(5, false, 0, 1);
    CHECK(all[0].record == 1);
    CHECK(examples == expected);
}

TEST_CASE("a balanced sampler's order of classes is as likely as any other") {
    unsigned counts[4][4] = {};
    const std::vector<std::uint32_t> labels = unequal_labels();
    const std::vector<Example> examples = balanced(5, true, 0, 4 * 8000);
    for (std::size_t p = 0; p < examples.size(); ++p) ++counts[p % 4][labels[examples[p].record]];
    double chi_square = 0;
    for (const auto& row : counts)
        for (const unsigned count : row) chi_square += (count - 2000.0) * (count - 2000.0) / 2000.0;
    CHECK(chi_square < 30); // 9 degrees of freedom: 9 +- 4
    CHECK(chi_square > 1);
}

TEST_CASE("a balanced sampler of a class without records is refused") {
    CHECK_THROWS_AS(Sampler(std::vector<std::uint32_t>{0, 2}, 1, true), std::invalid_argument);
    CHECK_THROWS_AS(Sampler(std::vector<std::uint32_t>{}, 1, true), std::invalid_argument);
}

TEST_CASE("a sampler of nothing is refused") { CHECK_THROWS_AS(Sampler(0, 1, true), std::invalid_argument); }

// Known answers from the generator's authors (Random123, kat_vectors).
TEST_CASE("the host's random numbers are Philox4x32-10") {
    using Words = std::array<std::uint32_t, 4>;
    CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
          Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

} // namespace towers
