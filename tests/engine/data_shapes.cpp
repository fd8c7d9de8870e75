#include "engine/data/cifar10.h"
#include "engine/data/shapes.h"
#include "engine/data/source.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace towers {

namespace {

// A hash of the bytes. It detects changed pictures, after which results on them are no longer comparable.
std::uint64_t fingerprint(const Dataset& data) {
    std::uint64_t hash = 14695981039346656037ull; // FNV-1a
    for (const std::uint8_t byte : data.images) hash = (hash ^ byte) * 1099511628211ull;
    return hash;
}

} // namespace

TEST_CASE("the built-in shapes have the promised size and the same number of each class") {
    for (const Split split : {Split::train, Split::test}) {
        const Dataset data = load_dataset("shapes", split, 1);
        const std::size_t count = split == Split::train ? 10'000 : 2'000;
        CHECK(data.size() == count);
        CHECK(data.images.size() == count * 3072);
        CHECK(std::set<std::string>(data.classes.begin(), data.classes.end()).size() == 10);
        std::array<std::size_t, 10> found{};
        for (const std::uint32_t label : data.labels) ++found.at(label);
        for (const std::size_t of_class : found) CHECK(of_class == count / 10);
    }
}

TEST_CASE("the same seed draws the same shapes, and another seed or split others") {
    const std::uint64_t one = fingerprint(make_shapes(Split::test, 1));
    CHECK(one == fingerprint(make_shapes(Split::test, 1)));
    CHECK(one != fingerprint(make_shapes(Split::test, 2)));
    CHECK(one != fingerprint(make_shapes(Split::test, 1ull << 32 | 1)));

    const Dataset train = make_shapes(Split::train, 1), test = make_shapes(Split::test, 1);
    CHECK_FALSE(std::equal(test.images.begin(), test.images.end(), train.images.begin()));
    CHECK(one == 0x5340fe799f43035eull);
}

TEST_CASE("every shape stands out within every crop that training makes") {
    const Dataset data = make_shapes(Split::test, 3);
    for (std::size_t i = 0; i < data.size(); ++i)
        for (const unsigned top : {0u, 8u})
            for (const unsigned left : {0u, 8u}) {
                double sum = 0, square = 0;
                for (unsigned channel = 0; channel < 3; ++channel) {
                    double channel_sum = 0, channel_square = 0;
                    for (unsigned y = top; y < top + 24; ++y)
                        for (unsigned x = left; x < left + 24; ++x) {
                            const double v = data.images[i * 3072 + channel * 1024 + y * 32 + x];
                            channel_sum += v;
                            channel_square += v * v;
                        }
                    sum += channel_sum / 576;
                    square += channel_square / 576 - (channel_sum / 576) * (channel_sum / 576);
                }
                CAPTURE(i);
                REQUIRE(sum > 0);
                REQUIRE(square / 3 > 15.0 * 15.0); // the noise alone gives 7 * 7
            }
}

TEST_CASE("shapes stored as CIFAR-10 records are read back the same") {
    const test::TemporaryFolder folder;
    for (const Split split : {Split::train, Split::test}) {
        const Dataset drawn = make_shapes(split, 11);
        write_cifar10(drawn, split, folder / "made/shapes");
        const Dataset read = load_cifar10(folder / "made/shapes", split);
        CHECK(read.images == drawn.images);
        CHECK(read.labels == drawn.labels);
        CHECK(read.classes == drawn.classes);
        CHECK(read.height == drawn.height);
        CHECK(read.width == drawn.width);
        CHECK(read.channels == drawn.channels);
    }
    CHECK(test::names_in(folder / "made/shapes") ==
          std::vector<std::string>{"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin",
                                   "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
                                   "test_batch.bin"});
}

} // namespace towers
