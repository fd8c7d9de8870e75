#include "engine/data/statistics.h"

#include "backends/error.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace towers;

namespace {

/// Records of two pixels in two channels, some of which cannot be read.
class Records final : public DataSource {
public:
    explicit Records(std::vector<std::uint32_t> broken)
        : DataSource({"records", {"a", "b", "c"}, {1, 2, 3}}, {0, 2, 2, 0}), broken_(std::move(broken)) {}

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        for (std::size_t i = 0; i < records.size(); ++i) {
            if (std::ranges::find(broken_, records[i]) != broken_.end())
                throw InputError("record " + std::to_string(records[i]) + " is broken");
            const auto image = images.subspan(i * 6, 6);
            std::ranges::fill(image.subspan(0, 2), std::uint8_t(255));
            std::ranges::fill(image.subspan(2, 2), std::uint8_t(records[i] % 2 == 0 ? 0 : 255));
            std::ranges::fill(image.subspan(4, 2), std::uint8_t(51));
        }
    }

private:
    std::vector<std::uint32_t> broken_;
};

} // namespace

TEST_CASE("statistics count a set's classes and give each channel's mean and deviation") {
    const DataStatistics found = statistics_of(Records({}));
    CHECK(found.counts == std::vector<std::size_t>{2, 0, 2});
    CHECK(found.mean == std::vector<double>{1, 0.5, 0.2});
    CHECK(found.deviation == std::vector<double>{0, 0.5, 0});
    CHECK(found.broken.empty());
}

TEST_CASE("statistics name each record that cannot be read and leave it out") {
    const DataStatistics found = statistics_of(Records({1, 3}));
    CHECK(found.mean == std::vector<double>{1, 0, 0.2});
    CHECK(found.counts == std::vector<std::size_t>{1, 0, 1});
    REQUIRE(found.broken.size() == 2);
    CHECK(found.broken[0].record == 1);
    CHECK(found.broken[0].problem == "record 1 is broken");
    CHECK(found.broken[1].record == 3);
}

TEST_CASE("records that cannot be read are left out of a copy") {
    const auto left = without_broken(std::make_unique<Records>(std::vector<std::uint32_t>{0, 3}));
    REQUIRE(left->size() == 2);
    CHECK(left->labels()[1] == 2);
    std::vector<std::uint8_t> images(12);
    left->read(0, 2, images);
    CHECK(images[2] == 255); // record 1
    CHECK(images[8] == 0);   // record 2
    CHECK_THROWS_AS(without_broken(std::make_unique<Records>(std::vector<std::uint32_t>{0, 1, 2, 3})),
                    InputError);
}
