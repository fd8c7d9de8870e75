#include "engine/data/source.h"
#include "backends/checksum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace towers {
namespace {

/// Bytes and labels that tell records and places in them apart.
Dataset data_of(const ImageSize& size, std::size_t count) {
    std::vector<std::uint8_t> images(count * size.elements());
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = std::uint8_t(i * 7 + i / 251);
    std::vector<std::uint32_t> labels(count);
    for (std::size_t i = 0; i < count; ++i) labels[i] = std::uint32_t(i * 3 % 10);
    return {{"some", std::vector<std::string>(10, "any"), size}, std::move(images), std::move(labels)};
}

} // namespace

TEST_CASE("records are read in the order in which they are asked for") {
    const Dataset data = data_of({5, 4, 3}, 9);
    std::vector<std::uint8_t> images(4 * 60);
    data.read(std::vector<std::uint32_t>{7, 0, 8, 7}, images);
    for (const auto& [place, record] : {std::pair(0, 7), {1, 0}, {2, 8}, {3, 7}})
        CHECK(std::ranges::equal(std::span(images).subspan(std::size_t(place) * 60, 60),
                                 data.images().subspan(std::size_t(record) * 60, 60)));
    const DataSource& source = data;
    source.read(3, 4, images);
    CHECK(std::ranges::equal(images, data.images().subspan(3 * 60, 4 * 60)));
}

TEST_CASE("a checksum is that of all labels, then all images, in however many pieces they are read") {
    for (const ImageSize& size : {ImageSize{5, 5, 3}, {701, 701, 1}}) { // an odd number of bytes
        const Dataset data = data_of(size, 37);
        CHECK((size.height == 5) == (data.piece() >= data.size()));
        CHECK(data.piece() % 8 == 0);
        Checksum sum;
        for (const std::uint32_t label : data.labels()) sum.add(label);
        sum.add(std::as_bytes(data.images()));
        CHECK(data.checksum() == sum.value());
    }
    CHECK(data_of({5, 5, 3}, 37).checksum() != data_of({5, 5, 3}, 36).checksum());
}

TEST_CASE("a piece has a record at least, however large the images are") {
    CHECK(data_of({4000, 3000, 1}, 1).piece() == 8);
    CHECK(data_of({32, 32, 3}, 1).piece() == 2728);
}

TEST_CASE("images that do not belong to their labels make no data set") {
    CHECK_THROWS_AS(Dataset({"odd", {}, {2, 2, 1}}, std::vector<std::uint8_t>(7), {0, 0}),
                    std::invalid_argument);
}

} // namespace towers
