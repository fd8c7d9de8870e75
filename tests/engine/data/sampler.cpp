#include "engine/data/sampler.h"
#include "engine/data/philox.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
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
