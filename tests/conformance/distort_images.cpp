#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace towers {
namespace {

using namespace test;
using reference::CropShape;
using reference::Distortion;
using reference::Values;
using reference::Words;

constexpr std::uint64_t seed = 0x0123456789abcdef;

struct DataSet {
    std::uint32_t slots;
    CropShape shape;
    std::vector<std::uint8_t> bytes;
    std::uint32_t first = 0; ///< the first slot's number; what lies before it is not there

    DataSet(std::uint32_t count, const CropShape& sizes)
        : slots(count), shape(sizes), bytes(slots * image_bytes()) {
        std::mt19937 random(1);
        // Channels have different means, so that a mix-up shows
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = std::uint8_t(random() % 128 + i / (image_bytes() / 3) % 3 * 64);
    }
    std::size_t image_bytes() const { return std::size_t(3) * shape.height * shape.width; }
    std::size_t image_size() const { return std::size_t(3) * shape.crop_height * shape.crop_width; }
    std::uint8_t* image(std::size_t slot) { return bytes.data() + (slot - first) * image_bytes(); }
    Words words() const {
        Words packed((bytes.size() + 3) / 4);
        std::memcpy(packed.data(), bytes.data(), bytes.size());
        return packed;
    }
};

struct Example {
    std::uint32_t slot, epoch;
    std::uint32_t record() const { return 3 * slot + 1000; } // images lie by the slot, draws go by the record
    std::uint32_t label() const { return slot * 7 % 10; }
};

/// The images one after another. Also checks the labels.
std::vector<float> distort(Device& device, const DataSet& data, const std::vector<Example>& examples,
                           bool distort, std::uint64_t key = seed) {
    Words numbers, expected_labels;
    for (const Example& example : examples) {
        numbers.insert(numbers.end(), {example.slot, example.record(), example.epoch, example.label()});
        expected_labels.push_back(example.label());
    }
    Trial trial(device);
    const Tensor records = trial.input(data.words()), in_examples = trial.input(numbers);
    const Tensor images = trial.output(examples.size() * data.image_size()),
                 batch_labels = trial.output(examples.size());
    const auto count = std::uint32_t(examples.size());
    DistortImagesParams params{records,
                               in_examples,
                               images,
                               batch_labels,
                               std::uint32_t(key),
                               std::uint32_t(key >> 32),
                               count,
                               data.shape.height,
                               data.shape.width,
                               data.shape.crop_height,
                               data.shape.crop_width,
                               distort};
    params.records.at -= data.first * data.image_bytes() / 4;
    trial.run(launch(kernels::distort_images, params));
    const bool same_labels = trial.words(batch_labels) == expected_labels;
    CHECK(same_labels);
    return trial.floats(images);
}

std::span<const float> slot(const DataSet& data, const std::vector<float>& images, std::size_t i) {
    return std::span(images).subspan(i * data.image_size(), data.image_size());
}

/// Checks every image by itself, so that bright images do not hide errors in dull ones.
void check_images(DataSet& data, const std::vector<Example>& examples, bool distorted) {
    INFO(data.shape.height, "x", data.shape.width, ", crop ", data.shape.crop_height, "x",
         data.shape.crop_width, ", ", examples.size(), " examples, distorted: ", distorted);
    std::vector<Values> expected;
    for (const Example& e : examples) {
        const Distortion distortion = distorted
                                          ? reference::draw_distortion(seed, e.record(), e.epoch, data.shape)
                                          : reference::centre_crop(data.shape);
        expected.push_back(reference::distort(data.image(e.slot), data.shape, distortion));
    }
    EverySource().run([&](Device& device) {
        // SwiftShader's offsets have 32 bits and its buffers at most 1 GiB.
        if (data.first > 0 && device.info().name.find("SwiftShader") != std::string::npos) return;
        const std::vector<float> images = distort(device, data, examples, distorted);
        for (std::size_t i = 0; i < examples.size(); ++i) {
            INFO("example ", i);
            check_near("image", slot(data, images, i), expected[i]);
        }
    });
}

std::vector<Example> some_examples(std::size_t count, std::uint32_t slots) {
    std::vector<Example> examples;
    for (std::size_t i = 0; i < count; ++i)
        examples.push_back({std::uint32_t(i * 5 % slots), std::uint32_t(i / slots)});
    return examples;
}

} // namespace

TEST_CASE("the reference's random numbers are Philox4x32-10's") { // Random123's known answers
    using reference::philox4x32_10;
    using Four = std::array<std::uint32_t, 4>;
    CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    constexpr std::uint32_t ones = 0xffffffff;
    CHECK(philox4x32_10({ones, ones, ones, ones}, {ones, ones}) ==
          Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

KERNEL_TEST(distort_images, "training sees the tutorial's distortions, the same on every device") {
    DataSet cifar(13, {32, 32, 24, 24}), odd(7, {13, 11, 5, 5}), whole(3, {5, 7, 5, 5}),
        pixel(3, {1, 1, 1, 1}), flat(5, {9, 21, 3, 16}), tall(5, {21, 9, 21, 2});
    for (DataSet* data : {&cifar, &odd, &whole, &pixel, &flat, &tall})
        for (const std::size_t count : {1u, 3u, 37u}) {
            const std::vector<Example> examples = some_examples(count, data->slots);
            check_images(*data, examples, true);
            check_images(*data, examples, false);
        }
}

TEST_CASE("dull images are standardized as precisely as other images") {
    DataSet data(3, {32, 32, 24, 24});
    std::fill(data.image(0), data.image(1), std::uint8_t(200));
    data.image(0)[16 * 32 + 16] = 203; // one pixel that every crop sees
    for (std::size_t i = 0; i < 3 * 32 * 32; ++i) data.image(1)[i] = std::uint8_t(250 + i % 2);
    check_images(data, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, false);
    check_images(data, {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, true);

    std::fill(data.image(2), data.image(2) + 3 * 32 * 32, std::uint8_t(77));
    on_every_device([&](Device& device) {
        for (const bool distorted : {false, true})
            for (const float value : distort(device, data, {{2, 0}}, distorted))
                REQUIRE(std::abs(value) < 1e-6f); // there is no variance to divide by
    });
}

TEST_CASE("large bright images are standardized as precisely as small ones") {
    // The squares of 66,052 white pixels do not fit in a word.
    DataSet data(1, {290, 310, 288, 301});
    for (std::uint8_t& byte : data.bytes) byte = std::uint8_t(255 - byte % 32);
    check_images(data, {{0, 0}}, false);
    check_images(data, {{0, 0}, {0, 1}}, true);
}

TEST_CASE("every slot of a large memory is read where it lies") {
    DataSet data(7, {13, 11, 5, 5}); // of 429 bytes, so that records begin anywhere in a word
    for (const std::uint32_t first : {10'100'000u, 20'000'000u}) { // beyond 4 GiB, and just below 8
        data.first = first;
        std::vector<Example> examples;
        for (std::uint32_t i = 0; i < data.slots; ++i) examples.push_back({first + i, i});
        check_images(data, examples, false);
        check_images(data, examples, true);
    }
}

TEST_CASE("an example's image does not depend on its batch") {
    const DataSet data(13, {32, 32, 24, 24});
    const std::vector<Example> examples = some_examples(37, data.slots);
    const std::vector<Example> reversed(examples.rbegin(), examples.rend());
    on_every_device([&](Device& device) {
        const std::vector<float> images = distort(device, data, examples, true);
        const std::vector<float> other = distort(device, data, reversed, true);
        for (std::size_t i = 0; i < examples.size(); ++i) {
            INFO("example ", i);
            const bool same = std::ranges::equal(slot(data, images, i), slot(data, other, 36 - i));
            CHECK(same);
        }
    });
}

TEST_CASE("every epoch and every seed distorts anew, evaluation never") {
    const DataSet data(1, {32, 32, 24, 24});
    on_every_device([&](Device& device) {
        const std::vector<float> images = distort(device, data, {{0, 0}, {0, 1}}, true);
        CHECK(!std::ranges::equal(slot(data, images, 0), slot(data, images, 1)));
        for (const std::uint64_t other_seed : {seed + 1, seed + (std::uint64_t(1) << 32)}) {
            const std::vector<float> other = distort(device, data, {{0, 0}, {0, 1}}, true, other_seed);
            CHECK(!std::ranges::equal(slot(data, images, 0), slot(data, other, 0)));
        }
        const std::vector<float> evaluated = distort(device, data, {{0, 0}, {0, 1}}, false);
        CHECK(std::ranges::equal(slot(data, evaluated, 0), slot(data, evaluated, 1)));
    });
}

namespace {

struct Moments {
    double mean = 0, deviation = 0;
};
Moments moments(const Values& values) {
    Moments m;
    for (const double value : values) m.mean += value / double(values.size());
    for (const double value : values)
        m.deviation += (value - m.mean) * (value - m.mean) / double(values.size());
    m.deviation = std::sqrt(m.deviation);
    return m;
}

Values channel(const Values& image, std::size_t which) {
    Values values;
    for (std::size_t i = which; i < image.size(); i += 3) values.push_back(image[i]);
    return values;
}

/// The first channel without its mean and contrast.
Values pattern(const Values& image) {
    Values values = channel(image, 0);
    const Moments m = moments(values);
    for (double& value : values) value = (value - m.mean) / m.deviation;
    return values;
}

/// Contrast stretches a channel about its mean and preserves the distance between two means.
double stretch(const Values& image) {
    const Moments first = moments(channel(image, 0)), last = moments(channel(image, 2));
    return first.deviation / (last.mean - first.mean);
}

} // namespace

TEST_CASE("all crops, both directions and all contrasts occur about equally often") {
    // Small images with the tutorial's 9 x 9 crops. The test infers what happened to each from the result,
    // not from the random numbers.
    constexpr std::uint32_t epochs = 4050, sides = 9;
    DataSet data(1, {12, 12, 4, 4});
    std::vector<Values> candidates;
    for (std::uint32_t i = 0; i < sides * sides * 2; ++i)
        candidates.push_back(
            reference::distort(data.image(0), data.shape, {i / 2 / sides, i / 2 % sides, i % 2 == 1, 0, 1}));
    std::vector<Values> patterns;
    for (const Values& candidate : candidates) patterns.push_back(pattern(candidate));

    std::vector<Example> examples;
    for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) examples.push_back({0, epoch});
    on_every_device([&](Device& device) {
        const std::vector<float> images = distort(device, data, examples, true);
        std::vector<int> crops(sides * sides), tenths(10);
        int flipped = 0;
        for (std::size_t i = 0; i < examples.size(); ++i) {
            const Values image = widen(slot(data, images, i));
            const Values seen = pattern(image);
            const auto likeness = [&](const Values& each) { return reference::dot(each, seen); };
            const auto found =
                std::size_t(std::ranges::max_element(patterns, {}, likeness) - patterns.begin());
            REQUIRE(likeness(patterns[found]) > 15.99); // out of 16 pixels: no other pattern fits
            ++crops[found / 2];
            flipped += int(found % 2);
            const double contrast = stretch(image) / stretch(candidates[found]);
            REQUIRE(contrast > 0.199);
            REQUIRE(contrast < 1.801);
            ++tenths[std::size_t(std::clamp((contrast - 0.2) / 0.16, 0.0, 9.9))];
        }
        // Within five standard deviations
        for (const int count : crops) CHECK(std::abs(count - 50) <= 35);
        for (const int count : tenths) CHECK(std::abs(count - 405) <= 95);
        CHECK(std::abs(flipped - int(epochs) / 2) <= 160);
    });
}

TEST_CASE("workgroups make the bits of an image that a subgroup makes on a software driver") {
    DataSet data(5, {33, 32, 30, 24});
    const std::vector<Example> examples = some_examples(7, data.slots);
    for (const std::string& id : device_ids()) {
        if (device(id).info().kind != DeviceKind::software) continue;
        INFO("on ", id);
        OpenOptions options = open_options();
        options.sources = Sources::cards;
        const auto as_card = open_device(id, options);
        const bool same =
            distort(device(id), data, examples, true) == distort(*as_card, data, examples, true);
        CHECK(same);
    }
}

} // namespace towers
