#include "engine/inference/preview.h"
#include "engine/data/formats.h"

#include "engine/data/shapes.h"

#include <array>
#include <cmath>
#include <doctest/doctest.h>

using namespace towers;

namespace {

constexpr std::array<std::uint32_t, 3> records = {7, 2, 7};

std::vector<std::uint8_t> shown(const std::vector<std::string>& changes, const PreviewOptions& options,
                                const DataSource& data, std::uint32_t epoch = 0) {
    std::vector<std::string> all{"input.shape=[32,32,3]", "pipeline.values=\"normalized\""};
    all.insert(all.end(), changes.begin(), changes.end());
    std::vector<Example> examples;
    for (const std::uint32_t record : records) examples.push_back({.record = record, .epoch = epoch});
    return preview(find_recipe("mnist-lenet", all), data, examples, options);
}

} // namespace

TEST_CASE("a preview of a pipeline that changes nothing shows the stored images") {
    const auto data = open_data({.source = "shapes", .split = Split::test});
    std::vector<std::uint8_t> stored(records.size() * data->image_size().elements());
    data->read(records, stored);
    CHECK(shown({}, {}, *data) == stored);
    CHECK(shown({"pipeline.mean=[0.4,0.5,0.6]", "pipeline.deviation=[0.2,0.3,0.1]"}, {}, *data) == stored);
    CHECK(shown({"pipeline.values=\"signed_unit\""}, {}, *data) == stored);
    CHECK(shown({"pipeline.values=\"bytes\""}, {}, *data) == stored);
}

TEST_CASE("a preview shows what is drawn for each record in each epoch, and nothing drawn for evaluation") {
    const auto data = open_data({.source = "shapes", .split = Split::test});
    const std::vector<std::string> random{"pipeline.train.brightness=[0.2,1.8]"};
    const auto first = shown(random, {}, *data);
    const std::size_t image = first.size() / records.size();
    CHECK(std::equal(first.begin(), first.begin() + std::ptrdiff_t(image),
                     first.end() - std::ptrdiff_t(image)));
    CHECK(shown(random, {}, *data) == first);
    CHECK(shown(random, {}, *data, 1) != first);
    CHECK(shown(random, {.seed = 2}, *data) != first);
    CHECK(shown(random, {.distort = false}, *data) == shown({}, {}, *data));
}

TEST_CASE("a preview of mixed images shows each with its partner's part") {
    const auto data = open_data({.source = "shapes", .split = Split::test});
    const auto alone = shown({}, {}, *data);
    const std::vector<Mix> mixes{
        {1, 0.25f, 0, 32u << 16 | 32}, {2, 1, 8u << 16 | 4, 16u << 16 | 20}, {0, 0, 0, 32u << 16 | 32}};
    const auto mixed = shown({}, {.seed = 1, .distort = true, .mixes = mixes}, *data);
    REQUIRE(mixed.size() == alone.size());
    const std::size_t image = alone.size() / records.size();
    for (std::size_t i = 0; i < mixed.size(); ++i) {
        const std::size_t row = i % 1024 / 32, column = i % 32;
        const bool within = i / image != 1 || (row >= 8 && row < 24 && column >= 4 && column < 24);
        const Mix& mix = mixes[i / image];
        const float part = within ? mix.part : 0;
        const float expected =
            float(alone[i]) * (1 - part) + float(alone[mix.partner * image + i % image]) * part;
        CHECK(std::abs(float(mixed[i]) - expected) <= 0.51f);
    }
}

TEST_CASE("a preview shows every augmentation") {
    const auto data = open_data({.source = "shapes", .split = Split::test});
    const auto plain = shown({}, {}, *data);
    for (const char* change :
         {"flip=1", "flip=\"alternating\"", "flip_vertical=0.9", "rotation=[20,30]", "trivial_augment=true",
          "rand_augment={operations=3}", "grayscale=1", "blur={kernel=5}", "erasing={probability=1}",
          "erasing={probability=1,mode=\"pixel\",count=3}"}) {
        CAPTURE(change);
        const std::string key = std::string("pipeline.train.") + change;
        CHECK(shown({key}, {}, *data) != plain);
        CHECK(shown({key}, {}, *data) == shown({key}, {}, *data));
        CHECK(shown({key}, {.distort = false}, *data) == plain);
    }
    // What is always drawn alike is what was asked for.
    const std::vector<std::string> twice{"pipeline.train.flip=1.0", "pipeline.train.flip_vertical=1",
                                         "pipeline.train.rotation=[180,180]"};
    CHECK(shown(twice, {}, *data) == plain);
    CHECK(shown({"pipeline.train.rand_augment={operations=0}"}, {}, *data) == plain);
}
