#include "engine/data/shapes.h"
#include "engine/data/cifar10.h"
#include "engine/data/formats.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

namespace towers {

namespace {

// A hash of the bytes, to detect changed pictures: results on others are not comparable.
std::uint64_t fingerprint(const Dataset& data) {
    std::uint64_t hash = 14695981039346656037ull; // FNV-1a
    for (const std::uint8_t byte : data.images()) hash = (hash ^ byte) * 1099511628211ull;
    return hash;
}

} // namespace

TEST_CASE("the built-in shapes have the promised size and the same number of each class") {
    for (const Split split : {Split::train, Split::test}) {
        const Dataset data = make_shapes(split, 1);
        const std::size_t count = split == Split::train ? 10'000 : 2'000;
        CHECK(data.size() == count);
        CHECK(data.image_size() == ImageSize{32, 32, 3});
        CHECK(std::set<std::string>(data.info().classes.begin(), data.info().classes.end()).size() == 10);
        std::array<std::size_t, 10> found{};
        for (const std::uint32_t label : data.labels()) ++found.at(label);
        for (const std::size_t of_class : found) CHECK(of_class == count / 10);
    }
}

TEST_CASE("the same seed draws the same shapes, and another seed or split others") {
    const std::uint64_t one = fingerprint(make_shapes(Split::test, 1));
    CHECK(one == fingerprint(make_shapes(Split::test, 1)));
    CHECK(one != fingerprint(make_shapes(Split::test, 2)));
    CHECK(one != fingerprint(make_shapes(Split::test, 1ull << 32 | 1)));

    const Dataset train = make_shapes(Split::train, 1), test = make_shapes(Split::test, 1);
    CHECK_FALSE(std::equal(test.images().begin(), test.images().end(), train.images().begin()));
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
                            const double v = data.images()[i * 3072 + channel * 1024 + y * 32 + x];
                            channel_sum += v;
                            channel_square += v * v;
                        }
                    sum += channel_sum / 576;
                    square += channel_square / 576 - (channel_sum / 576) * (channel_sum / 576);
                }
                CAPTURE(i);
                REQUIRE(sum > 0);
                REQUIRE(square / 3 > 15.0 * 15.0); // noise alone gives 7 * 7
            }
}

TEST_CASE("shapes are drawn at the size and in the colours that a network takes") {
    for (const ImageSize& size : {ImageSize{28, 28, 1}, {64, 64, 3}, {40, 57, 3}, {16, 1, 1}}) {
        const Dataset data = make_shapes(Split::test, 1, size);
        CHECK(data.image_size() == size);
        CHECK(data.size() == 2000);
        CHECK(data.images().size() == 2000 * size.elements());
        CHECK(data.labels()[13] == 3);
    }
    CHECK_THROWS_AS(make_shapes(Split::test, 1, {32, 32, 2}), std::invalid_argument);
    CHECK_THROWS_AS(make_shapes(Split::test, 1, {0, 32, 3}), std::invalid_argument);
}

TEST_CASE("large shapes take little memory, and each class has equally many") {
    CHECK(shapes_count(Split::train, {32, 32, 3}) == 10'000);
    CHECK(shapes_count(Split::test, {32, 32, 3}) == 2'000);
    CHECK(shapes_count(Split::train, {64, 64, 3}) == 5'460);
    CHECK(shapes_count(Split::test, {64, 64, 3}) == 2'000);
    CHECK(shapes_count(Split::train, {299, 299, 3}) == 500);
    CHECK(make_shapes(Split::train, 1, {96, 96, 3}, 30).size() == 30);
}

// The mean of each cell of `from`x`from` pixels, so that two sizes compare
std::vector<double> cells(const Dataset& data, std::size_t image, unsigned from) {
    const auto [height, width, channels] = data.image_size();
    const unsigned side = height / from;
    std::vector<double> sums(std::size_t(side) * side * channels);
    for (unsigned channel = 0; channel < channels; ++channel)
        for (unsigned y = 0; y < height; ++y)
            for (unsigned x = 0; x < width; ++x)
                sums[(channel * side + y / from) * side + x / from] +=
                    data.images()[((image * channels + channel) * height + y) * width + x] /
                    double(from * from);
    return sums;
}

TEST_CASE("a seed draws the same pictures at every size, and in grey their brightness") {
    const Dataset usual = make_shapes(Split::test, 7, {32, 32, 3}, 50);
    const Dataset large = make_shapes(Split::test, 7, {128, 128, 3}, 50);
    const Dataset grey = make_shapes(Split::test, 7, {32, 32, 1}, 50);
    for (std::size_t i = 0; i < 50; ++i) {
        CAPTURE(i);
        const std::vector<double> a = cells(usual, i, 1), b = cells(large, i, 4), c = cells(grey, i, 1);
        double between_sizes = 0, from_grey = 0;
        for (std::size_t k = 0; k < 3072; ++k) between_sizes += std::abs(a[k] - b[k]) / 3072;
        for (std::size_t k = 0; k < 1024; ++k)
            from_grey += std::abs((a[k] + a[1024 + k] + a[2048 + k]) / 3 - c[k]) / 1024;
        CHECK(between_sizes < 12); // 6 from noise, the rest from edges
        CHECK(from_grey < 9);
    }
}

TEST_CASE("shapes stored as CIFAR-10 records are read back the same") {
    const test::TemporaryFolder folder;
    for (const Split split : {Split::train, Split::test}) {
        const Dataset drawn = make_shapes(split, 11);
        write_cifar10(drawn, split, folder / "made/shapes");
        const auto read = open_cifar10(folder / "made/shapes", split);
        CHECK(read->checksum() == drawn.checksum());
        CHECK(read->info().classes == drawn.info().classes);
        CHECK(read->image_size() == drawn.image_size());
    }
    CHECK(test::names_in(folder / "made/shapes") ==
          std::vector<std::string>{"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin",
                                   "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
                                   "test_batch.bin"});
}

} // namespace towers
