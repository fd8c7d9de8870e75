#include "tests/conformance/harness.h"
#include "tests/conformance/reference_augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace towers {
namespace {

using namespace test;
using reference::AugmentedExample;
using reference::Draw;
using reference::Values;
using reference::Words;
using Box = Augmentation::Box;

constexpr std::uint64_t seed = 0xfedcba9876543210;

struct Example {
    std::uint32_t slot, epoch;
    std::uint32_t record() const { return 3 * slot + 1000; } // images lie by the slot, draws go by the record
    std::uint32_t label() const { return slot * 5 % 13; }
};

struct Stored {
    std::uint32_t slots;
    ImageSize size;
    std::vector<std::uint8_t> bytes;

    Stored(std::uint32_t count, ImageSize image)
        : slots(count), size(image), bytes(std::size_t(count) * image.height * image.width * image.channels) {
        std::mt19937 random(3);
        for (std::size_t i = 0; i < bytes.size(); ++i) // different channels, smooth and noisy parts
            bytes[i] = std::uint8_t(random() % 90 + i / (size.height * size.width) % size.channels * 40 +
                                    i % (size.height * size.width) * 80 / (size.height * size.width));
    }
    const std::uint8_t* image(std::size_t slot) const {
        return bytes.data() + slot * size.height * size.width * size.channels;
    }
    Words words() const {
        Words packed((bytes.size() + 3) / 4);
        std::memcpy(packed.data(), bytes.data(), bytes.size());
        return packed;
    }
};

Words numbers_of(const std::vector<Example>& examples) {
    Words numbers;
    for (const Example& example : examples)
        numbers.insert(numbers.end(), {example.slot, example.record(), example.epoch, example.label()});
    return numbers;
}

/// One batch on one device, kernel by kernel.
struct Batch {
    const Stored& stored;
    const std::vector<Example>& examples;
    AugmentationLaunches launches;

    Batch(const Stored& data, const Augmentation& a, ImageSize image, const std::vector<Example>& which,
          std::uint64_t key = seed)
        : stored(data), examples(which),
          launches(augmentation_launches(a, data.size, image, key, unsigned(which.size()))) {}

    std::vector<float> draws(Device& device) {
        Trial trial(device);
        launches.draw.examples = trial.input(numbers_of(examples));
        const Tensor draws = trial.output(examples.size() * AUGMENT_DRAWS * 4);
        launches.draw.draws = draws;
        trial.run(launch(kernels::draw_augmentations, launches.draw));
        return trial.floats(draws);
    }

    Words sums(Device& device, const std::vector<float>& draws) {
        Trial trial(device);
        launches.sums.records = trial.input(stored.words());
        launches.sums.examples = trial.input(numbers_of(examples));
        launches.sums.draws = trial.input(draws);
        const Tensor sums = trial.output(examples.size() * GREY_CHUNKS * 2);
        launches.sums.sums = sums;
        trial.run(launch(kernels::grey_sums, launches.sums));
        return trial.words(sums);
    }

    /// The images one after another. Also checks the labels.
    std::vector<float> images(Device& device) {
        const std::vector<float> drawn = draws(device);
        Words summed(2); // also exists if there is nothing to add up
        if (launches.needs_sums) summed = sums(device, drawn);
        Words expected;
        for (const Example& example : examples) expected.push_back(example.label());
        Trial trial(device);
        AugmentImagesParams& p = launches.images;
        p.records = trial.input(stored.words());
        p.examples = trial.input(numbers_of(examples));
        p.draws = trial.input(drawn);
        p.grey_sums = trial.input(summed);
        const std::size_t values = std::size_t(p.shape.out_height) * p.shape.out_width * p.shape.channels;
        const Tensor images = trial.output(examples.size() * values), labels = trial.output(examples.size());
        p.images = images;
        p.batch_labels = labels;
        trial.run(launch(kernels::augment_images, p));
        const bool same_labels = trial.words(labels) == expected;
        CHECK(same_labels);
        return trial.floats(images);
    }
};

std::vector<Example> some_examples(std::size_t count, std::uint32_t slots) {
    std::vector<Example> examples;
    for (std::size_t i = 0; i < count; ++i)
        examples.push_back({std::uint32_t(i * 3 % slots), std::uint32_t(i / slots)});
    return examples;
}

std::span<const float> slot(const std::vector<float>& values, std::size_t i, std::size_t count) {
    return std::span(values).subspan(i * (values.size() / count), values.size() / count);
}

void check_images(const Stored& stored, const Augmentation& a, ImageSize image, std::size_t count) {
    INFO(stored.size.height, "x", stored.size.width, "x", stored.size.channels, " to ", image.height, "x",
         image.width, ", ", count, " examples, box ", int(a.box), ", contrast from ", a.contrast.low);
    const std::vector<Example> examples = some_examples(count, stored.slots);
    std::vector<Values> expected;
    for (const Example& e : examples)
        expected.push_back(
            AugmentedExample{a, stored.size, image, seed, e.record(), e.epoch}.make(stored.image(e.slot)));
    on_every_device([&](Device& device) {
        const std::vector<float> images = Batch(stored, a, image, examples).images(device);
        for (std::size_t i = 0; i < count; ++i) {
            INFO("example ", i);
            check_near("image", slot(images, i, count), expected[i]);
        }
    });
}

/// Each option alone, then all that can be combined.
std::vector<Augmentation> every_option(bool crops) {
    const auto with = [](auto change) {
        Augmentation a;
        change(a);
        return a;
    };
    std::vector<Augmentation> all = {{},
                                     with([](auto& a) { a.box = Box::centre, a.fraction = 0.875f; }),
                                     with([](auto& a) { a.box = Box::centre_fit, a.fraction = 0.875f; }),
                                     with([](auto& a) {
                                         a.box = Box::random_area, a.area = {0.05f, 1};
                                     }),
                                     with([](auto& a) {
                                         a.box = Box::random_area, a.area = {0.9f, 1}, a.aspect = {3, 4};
                                     }), // rarely fits
                                     with([](auto& a) { a.flip = Augmentation::Flip::half; }),
                                     with([](auto& a) { a.flip_vertical = 0.5f; }),
                                     with([](auto& a) { a.antialias = true; }),
                                     with([](auto& a) {
                                         a.box = Box::random_area, a.antialias = true;
                                         a.flip = Augmentation::Flip::half, a.flip_vertical = 0.5f;
                                         a.contrast = {0, 2};
                                     }),
                                     with([](auto& a) {
                                         a.brightness = {0.4f, 1.9f};
                                     }),
                                     with([](auto& a) {
                                         a.contrast = {0, 2};
                                     }),
                                     with([](auto& a) {
                                         a.saturation = {0, 3};
                                     }),
                                     with([](auto& a) {
                                         a.hue = {-0.5f, 0.5f};
                                     }),
                                     with([](auto& a) { a.cutout = 2; }),
                                     with([](auto& a) { a.values = Augmentation::Values::signed_unit; }),
                                     with([](auto& a) {
                                         a.values = Augmentation::Values::normalized;
                                         a.mean = {0.4914f, 0.4822f, 0.4465f};
                                         a.deviation = {0.247f, 0.2435f, 0.2616f};
                                     })};
    if (crops) {
        all.push_back(with([](auto& a) { a.box = Box::centre_crop; }));
        all.push_back(with([](auto& a) { a.box = Box::random_crop; }));
        all.push_back(with([](auto& a) { a.box = Box::random_crop, a.pad = 4; }));
        all.push_back(with([](auto& a) {
            a.box = Box::random_crop, a.pad = 4;
            a.padding = Augmentation::Padding::reflect;
        }));
    }
    for (const Box box : {Box::random_area, Box::random_crop}) {
        if (box == Box::random_crop && !crops) continue;
        all.push_back(with([&](auto& a) {
            a.box = box, a.pad = 3, a.area = {0.1f, 0.8f}, a.flip = Augmentation::Flip::half;
            a.brightness = a.contrast = a.saturation = {0.5f, 1.6f};
            a.hue = {-0.2f, 0.3f};
            a.cutout = 3;
            a.values = Augmentation::Values::normalized;
            a.mean = {0.5f, 0.4f, 0.3f};
            a.deviation = {0.2f, 0.3f, 0.25f};
        }));
    }
    return all;
}

} // namespace

KERNEL_TEST(augment_images, "every option of a recipe's pipeline changes images as documented") {
    const Stored cifar(7, {32, 32, 3}), odd(5, {13, 11, 3}), grey(5, {9, 14, 1});
    for (const Augmentation& a : every_option(true)) {
        check_images(cifar, a, {32, 32, 3}, 5);
        check_images(odd, a, {7, 9, 3}, 13);
        check_images(grey, a, {9, 5, 1}, 3);
    }
    for (const Augmentation& a : every_option(false)) {
        check_images(odd, a, {17, 23, 3}, 3);
        check_images(grey, a, {19, 31, 1}, 1);
    }
    check_images(Stored(2, {1, 1, 3}), {}, {1, 1, 3}, 3);
    check_images(Stored(2, {1, 1, 1}), {}, {3, 2, 1}, 3);
}

TEST_CASE("an image that is neither resized nor changed keeps its bytes") {
    const Stored stored(3, {11, 13, 3});
    const std::vector<Example> examples = some_examples(3, 3);
    on_every_device([&](Device& device) {
        const std::vector<float> images = Batch(stored, {}, stored.size, examples).images(device);
        for (std::size_t i = 0; i < images.size(); ++i) {
            const std::size_t example = i / 429, pixel = i % 429 / 3, channel = i % 3;
            REQUIRE(images[i] == float(stored.image(examples[example].slot)[channel * 143 + pixel]));
        }
    });
}

TEST_CASE("an example's augmentation does not depend on its batch, and changes with epoch and seed") {
    const Stored stored(6, {14, 12, 3});
    Augmentation a = every_option(true).back();
    const std::vector<Example> examples = some_examples(17, 6);
    const std::vector<Example> reversed(examples.rbegin(), examples.rend()), twice = {{0, 0}, {0, 1}};
    on_every_device([&](Device& device) {
        const std::vector<float> images = Batch(stored, a, {10, 9, 3}, examples).images(device);
        const std::vector<float> others = Batch(stored, a, {10, 9, 3}, reversed).images(device);
        for (std::size_t i = 0; i < 17; ++i) {
            const bool same = std::ranges::equal(slot(images, i, 17), slot(others, 16 - i, 17));
            CHECK(same);
        }
        const std::vector<float> epochs = Batch(stored, a, {10, 9, 3}, twice).images(device);
        CHECK_FALSE(std::ranges::equal(slot(epochs, 0, 2), slot(epochs, 1, 2)));
        for (const std::uint64_t key : {seed + 1, seed + (std::uint64_t(1) << 32)}) {
            const std::vector<float> keyed = Batch(stored, a, {10, 9, 3}, twice, key).images(device);
            CHECK_FALSE(std::ranges::equal(slot(epochs, 0, 2), slot(keyed, 0, 2)));
        }
    });
}

KERNEL_TEST(grey_sums, "contrast changes about each image's own mean, however large it is") {
    const Stored cifar(3, {32, 32, 3}), odd(5, {13, 11, 1}), large(1, {60, 70, 3});
    Augmentation a;
    a.contrast = {0.5f, 1.5f};
    a.brightness = {0.5f, 2};
    a.flip = Augmentation::Flip::half;
    const auto check = [&](const Stored& stored, ImageSize image, std::size_t count) {
        const std::vector<Example> examples = some_examples(count, stored.slots);
        on_every_device([&](Device& device) {
            Batch batch(stored, a, image, examples);
            const Words sums = batch.sums(device, batch.draws(device));
            for (std::size_t i = 0; i < count; ++i) {
                const Values greys =
                    AugmentedExample{a, stored.size, image, seed, examples[i].record(), examples[i].epoch}
                        .grey(stored.image(examples[i].slot));
                Values expected;
                std::vector<float> measured;
                for (std::size_t chunk = 0; chunk < GREY_CHUNKS; ++chunk)
                    expected.push_back(std::accumulate(
                        greys.begin() + std::ptrdiff_t(greys.size() * chunk / GREY_CHUNKS),
                        greys.begin() + std::ptrdiff_t(greys.size() * (chunk + 1) / GREY_CHUNKS), 0.0));
                for (std::size_t k = i * GREY_CHUNKS; k < (i + 1) * GREY_CHUNKS; ++k)
                    measured.push_back(float(sums[k * 2 + 1]) * 65536.0f + float(sums[k * 2]) / 65536.0f);
                check_near("sums", measured, expected);
            }
        });
    };
    check(cifar, {32, 32, 3}, 5);
    check(odd, {3, 2, 1}, 3); // fewer pixels than chunks
    check(large, {131, 149, 3}, 1);
}

} // namespace towers
