#include "tests/conformance/harness.h"
#include "tests/conformance/reference_operations.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace towers {
namespace {

using namespace test;
using reference::ErasedBox;
using reference::Operation;
using reference::Values;
using Words = std::vector<std::uint32_t>;

constexpr std::uint64_t seed = 77;
constexpr ImageSize size{37, 41, 3};

Words examples_of(std::uint32_t count, std::uint32_t epoch) {
    Words examples;
    for (std::uint32_t i = 0; i < count; ++i)
        for (const std::uint32_t word : {7 * i + 3, i, epoch, 1u}) examples.push_back(word);
    return examples;
}

/// The factors that are drawn for record i, which draw_operations only hands on
std::array<double, 4> factors_of(std::uint32_t i) { return {1.0 + i, 2, 3, 0.25}; }

/// For each of records 0 to count - 1
std::vector<std::vector<Operation>> draw(Device& device, const Augmentation& a, std::uint32_t count) {
    const AugmentationLaunches launches = augmentation_launches(a, size, size, seed, count);
    std::vector<float> draws(std::size_t(count) * AUGMENT_DRAWS * 4, 55.0f);
    for (std::uint32_t i = 0; i < count; ++i)
        for (std::size_t n = 0; n < 4; ++n) draws[(i * AUGMENT_DRAWS + 1) * 4 + n] = float(factors_of(i)[n]);
    Trial trial(device);
    DrawOperationsParams p = launches.operations;
    const std::size_t slots = OPERATION_SLOTS(p);
    p.examples = trial.input(examples_of(count, 5));
    p.draws = trial.input(draws);
    const Tensor out = trial.output(count * slots * OPERATION_DRAWS * 4);
    p.operations = out;
    trial.run(launch(kernels::draw_operations, p));
    const std::vector<float> v = trial.floats(out);
    std::vector<std::vector<Operation>> all(count);
    for (std::size_t at = 0; at < v.size(); at += 8)
        all[at / 8 / slots].push_back(
            {uint(v[at]),
             double(v[at + 1]),
             double(v[at + 2]),
             {double(v[at + 4]), double(v[at + 5]), double(v[at + 6]), double(v[at + 7])}});
    return all;
}

template<class Change>
Augmentation with(Change change) {
    Augmentation a;
    change(a);
    return a;
}

/// Within five standard deviations of `share` of `total`
void check_share(int count, int total, double share) {
    CHECK(std::abs(count - total * share) <= 5 * std::sqrt(total * share * (1 - share)));
}

std::vector<ErasedBox> draw_boxes(Device& device, const Augmentation::Erasing& erasing,
                                  const ImageSize& image, std::uint32_t count) {
    Augmentation a;
    a.erasing = erasing;
    DrawErasingParams p = augmentation_launches(a, image, image, seed, count).draw_erasing;
    Trial trial(device);
    p.examples = trial.input(examples_of(count, 5));
    const Tensor out = trial.output(std::size_t(count) * p.most * ERASING_DRAWS * 4);
    p.boxes = out;
    trial.run(launch(kernels::draw_erasing, p));
    const std::vector<float> v = trial.floats(out);
    std::vector<ErasedBox> boxes;
    for (std::size_t at = 0; at < v.size(); at += 8)
        boxes.push_back({int(v[at]),
                         int(v[at + 1]),
                         int(v[at + 2]),
                         int(v[at + 3]),
                         {double(v[at + 4]), double(v[at + 5]), double(v[at + 6])}});
    return boxes;
}

} // namespace

KERNEL_TEST(draw_operations,
            "every example gets the operations that a recipe asks for, with torchvision's magnitudes") {
    const auto everything = [](Augmentation& a) {
        a.rotation = {-20, 70};
        a.rotation_bilinear = true;
        a.rand_augment = {3, 7, 11};
        a.brightness = {0.5f, 1.5f};
        a.hue = {-0.1f, 0.1f};
        a.random_order = true;
        a.jitter_probability = 0.8f;
        a.grayscale = 0.2f;
        a.blur = {5, {0.1f, 2}, 0.5f};
    };
    for (const Augmentation& a : {with(everything), with([](auto& x) { x.rand_augment.operations = 2; }),
                                  with([](auto& x) { x.trivial_augment = true; }),
                                  with([](auto& x) { x.grayscale = 0.5f; }), with([](auto& x) {
                                      x.rand_augment = {16, 30, 31};
                                  }),
                                  with([](auto& x) {
                                      x.blur = {3, {1, 1}, 1};
                                  }),
                                  with([](auto& x) {
                                      x.contrast = {1, 2}, x.jitter_probability = 0.5f;
                                  }),
                                  with([](auto& x) {
                                      x.rotation = {-5, 5};
                                  })})
        on_every_device([&](Device& device) {
            constexpr std::uint32_t count = 300;
            const auto all = draw(device, a, count);
            for (std::uint32_t i = 0; i < count; ++i) {
                const auto expected = reference::drawn_operations(a, size, factors_of(i), seed, i, 5);
                REQUIRE(all[i].size() == expected.size());
                for (std::size_t n = 0; n < expected.size(); ++n) {
                    INFO("record ", i, ", operation ", n);
                    const Operation &is = all[i][n], &should = expected[n];
                    REQUIRE(is.kind == should.kind);
                    REQUIRE(is.magnitude == doctest::Approx(should.magnitude).epsilon(1e-6));
                    REQUIRE(is.more == should.more);
                    if (is.kind == OPERATION_ROTATION) REQUIRE(is.magnitude == should.magnitude);
                    if (is.kind == OPERATION_JITTER) REQUIRE(is.factors == should.factors);
                }
            }
        });
}

TEST_CASE("policies choose each operation, magnitude and sign equally often") {
    constexpr int total = 8000;
    for (const bool trivial : {true, false}) {
        Augmentation a;
        a.trivial_augment = trivial;
        if (!trivial) a.rand_augment.operations = 2;
        on_every_device([&](Device& device) {
            std::map<uint, int> kinds[2];
            std::map<double, int> shears;
            int signs = 0, signed_ones = 0, alike = 0;
            for (const auto& operations : draw(device, a, total)) {
                for (std::size_t n = 0; n < operations.size(); ++n) {
                    const auto& [kind, magnitude, more, factors] = operations[n];
                    ++kinds[n][kind];
                    if (kind == OPERATION_SHEAR_X) ++shears[std::abs(magnitude)];
                    if (kind < OPERATION_SHEAR_X || kind > OPERATION_SHARPNESS || magnitude == 0) continue;
                    ++signed_ones;
                    signs += magnitude < 0 ? 1 : 0;
                }
                if (operations.size() > 1) alike += operations[0].kind == operations[1].kind ? 1 : 0;
            }
            for (const auto& each : kinds)
                for (const auto& [kind, count] : each) check_share(count, total, 1.0 / POLICY_OPERATIONS);
            CHECK(kinds[0].size() == POLICY_OPERATIONS);
            CHECK(kinds[1].size() == (trivial ? 0 : POLICY_OPERATIONS));
            CHECK(shears.size() == (trivial ? 31 : 1));
            for (const auto& [magnitude, count] : shears)
                check_share(count, kinds[0][OPERATION_SHEAR_X] + kinds[1][OPERATION_SHEAR_X],
                            trivial ? 1.0 / 31 : 1);
            check_share(signs, signed_ones, 0.5);
            if (!trivial) check_share(alike, total, 1.0 / POLICY_OPERATIONS);
        });
    }
}

TEST_CASE("orders, probabilities, angles and deviations are drawn evenly") {
    constexpr int total = 6000;
    Augmentation a;
    a.rotation = {-30, 90};
    a.contrast = {0.5f, 1.5f};
    a.random_order = true;
    a.jitter_probability = 0.8f;
    a.grayscale = 0.2f;
    a.blur = {3, {1, 3}, 0.3f};
    on_every_device([&](Device& device) {
        std::map<double, int> orders;
        int jittered = 0, grey = 0, both = 0, blurred = 0, low_angles = 0, low_sigmas = 0;
        for (const auto& o : draw(device, a, total)) {
            const auto parts = uint(o[1].magnitude);
            ++orders[o[1].more];
            jittered += (parts & AUGMENT_CONTRAST) != 0 ? 1 : 0;
            grey += (parts & AUGMENT_GRAYSCALE) != 0 ? 1 : 0;
            both += parts == (AUGMENT_CONTRAST | AUGMENT_GRAYSCALE) ? 1 : 0;
            blurred += o[2].kind == OPERATION_BLUR_ROWS ? 1 : 0;
            low_angles += o[0].magnitude < 0 ? 1 : 0;
            low_sigmas += o[2].magnitude < 1.5 ? 1 : 0;
            REQUIRE(o[2].magnitude == o[3].magnitude);
        }
        CHECK(orders.size() == 24);
        for (const auto& [order, count] : orders) check_share(count, total, 1.0 / 24);
        check_share(jittered, total, 0.8);
        check_share(grey, total, 0.2);
        check_share(both, total, 0.16);
        check_share(blurred, total, 0.3);
        check_share(low_angles, total, 0.25);
        check_share(low_sigmas, total, 0.25);
    });
}

KERNEL_TEST(draw_erasing, "boxes to erase follow timm's rule, the same on every device") {
    using Mode = Augmentation::Erasing::Mode;
    const Augmentation::Erasing usual{0.5f, {0.02f, 1.0f / 3}, {0.3f, 3.3f}, Mode::constant, 1};
    const Augmentation::Erasing several{0.9f, {0.1f, 0.9f}, {0.2f, 4}, Mode::rand, 3};
    const Augmentation::Erasing large{1, {0.9f, 1}, {0.9f, 1.2f}, Mode::constant, 1}; // rarely fits
    for (const Augmentation::Erasing& erasing : {usual, several, large})
        for (const ImageSize& image : {ImageSize{32, 32, 3}, {224, 160, 3}, {5, 9, 1}, {1, 1, 1}}) {
            constexpr std::uint32_t count = 1000;
            std::vector<std::vector<ErasedBox>> all;
            on_every_device([&](Device& device) {
                const std::vector<ErasedBox> boxes = draw_boxes(device, erasing, image, count);
                int others = 0;
                for (std::size_t i = 0; i < boxes.size(); ++i) {
                    const ErasedBox& b = boxes[i];
                    const ErasedBox e = reference::drawn_boxes(erasing, image, seed, uint(i / erasing.count),
                                                               5)[i % erasing.count];
                    const auto place = [](const ErasedBox& x) {
                        return std::array{x.top, x.left, x.height, x.width};
                    };
                    others += place(b) == place(e) ? 0 : 1;
                    if (!all.empty()) REQUIRE(place(b) == place(all[0][i]));
                    for (std::size_t c = 0; c < 3; ++c)
                        REQUIRE(b.colour[c] == doctest::Approx(e.colour[c]).epsilon(1e-5));
                }
                CHECK(others <= 10); // a side within 1e-5 of a half
                all.push_back(boxes);
            });
        }
}

TEST_CASE("erasing is as frequent and as large as it should be, in colours of a normal distribution") {
    constexpr std::uint32_t total = 6000;
    const Augmentation::Erasing erasing{
        0.25f, {0.02f, 0.1f}, {0.5f, 2}, Augmentation::Erasing::Mode::rand, 3};
    constexpr ImageSize image{200, 200, 3};
    on_every_device([&](Device& device) {
        int erased = 0, counts[4] = {};
        double area = 0, sum = 0, squares = 0, colours = 0;
        const std::vector<ErasedBox> boxes = draw_boxes(device, erasing, image, total);
        for (std::size_t i = 0; i < boxes.size(); i += 3) {
            int count = 0;
            for (std::size_t n = i; n < i + 3; ++n) {
                const ErasedBox& box = boxes[n];
                if (box.height == 0) continue;
                ++count;
                REQUIRE(box.top + box.height <= 200);
                REQUIRE(box.left + box.width <= 200);
                area += double(box.height) * box.width / 40000;
                for (const double each : box.colour) sum += each, squares += each * each, ++colours;
            }
            erased += count > 0 ? 1 : 0;
            ++counts[count];
        }
        check_share(erased, total, 0.25);
        for (const int n : {1, 2, 3}) check_share(counts[n], erased, 1.0 / 3);
        CHECK(area / erased == doctest::Approx(0.06).epsilon(0.05)); // shared by an image's boxes
        CHECK(std::abs(sum / colours) < 5 / std::sqrt(colours));
        CHECK(std::abs(squares / colours - 1) < 5 * std::sqrt(2 / colours));
    });
}

KERNEL_TEST(erase_boxes, "the last box of a pixel erases it, and the rest of the image stays") {
    using Mode = Augmentation::Erasing::Mode;
    for (const auto mode : {ERASING_CONST, ERASING_RAND, ERASING_PIXEL})
        for (const ImageSize& image : {ImageSize{13, 11, 3}, {9, 16, 1}}) {
            constexpr std::uint32_t count = 5, most = 3;
            std::vector<ErasedBox> boxes;
            for (int i = 0; i < int(count * most); ++i) {
                const bool is_one = i % 5 != 0;
                const double hue = mode == ERASING_RAND ? i - 4.5 : 0;
                boxes.push_back(
                    {i % 4, i * 3 % 7, is_one ? 2 + i % 3 : 0, is_one ? 4 : 0, {hue, 2 * hue, -hue}});
            }
            std::vector<float> given;
            for (const ErasedBox& b : boxes)
                for (const double each : {double(b.top), double(b.left), double(b.height), double(b.width),
                                          b.colour[0], b.colour[1], b.colour[2], 0.0})
                    given.push_back(float(each));
            const std::vector<float> images = random_floats(count * image.elements(), 4);
            Values expected = widen(images);
            for (std::size_t at = 0; at < expected.size(); ++at) {
                const std::size_t i = at / image.elements(), k = at % image.elements() / image.channels;
                const int row = int(k / image.width), column = int(k % image.width);
                for (std::size_t n = 0; n < most; ++n) {
                    const ErasedBox& b = boxes[i * most + n];
                    if (row < b.top || row >= b.top + b.height || column < b.left ||
                        column >= b.left + b.width)
                        continue;
                    const auto colour = mode == ERASING_PIXEL
                                            ? reference::erasing_noise(seed, uint(i), 5, uint(n), uint(k))
                                            : b.colour;
                    expected[at] = colour[at % image.channels];
                }
            }
            on_every_device([&](Device& device) {
                Augmentation a;
                a.erasing.count = most;
                a.erasing.mode = mode == ERASING_CONST  ? Mode::constant
                                 : mode == ERASING_RAND ? Mode::rand
                                                        : Mode::pixel;
                EraseBoxesParams p = augmentation_launches(a, image, image, seed, count).erase;
                Trial trial(device);
                p.examples = trial.input(examples_of(count, 5));
                p.boxes = trial.input(given);
                const Tensor erased = trial.in_out(images);
                p.images = erased;
                trial.run(launch(kernels::erase_boxes, p));
                check_near("images", trial.floats(erased), expected);
            });
        }
}

} // namespace towers
