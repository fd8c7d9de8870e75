#include "tests/conformance/harness.h"
#include "tests/conformance/reference_operations.h"

#include <algorithm>
#include <cmath>

namespace towers {
namespace {

using namespace test;
using reference::ErasedBox;
using reference::Operation;
using reference::Values;
using Words = std::vector<std::uint32_t>;

/// Images of values 0 to 255, whole or not, each with a range and a brightness of its own.
std::vector<float> some_images(std::size_t count, const ImageSize& size, bool whole) {
    std::vector<float> values = random_floats(count * size.elements(), 5, 0, 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t image = i / size.elements(), channel = i % size.channels;
        const float low = float(image * 13 % 60 + 20 * channel), high = 255 - float(image * 29 % 100);
        values[i] = std::clamp(low + (high - low) * values[i], 0.0f, 255.0f);
        values[i] = whole ? std::floor(values[i]) : std::floor(values[i] * 16) / 16; // halves among them
    }
    return values;
}

/// One operation for each image, in the slot `slot` of three.
std::vector<float> drawn(const std::vector<Operation>& operations, unsigned slot) {
    std::vector<float> draws(operations.size() * 3 * OPERATION_DRAWS * 4, 77.0f);
    for (std::size_t i = 0; i < operations.size(); ++i) {
        const Operation& o = operations[i];
        float* const to = &draws[(i * 3 + slot) * OPERATION_DRAWS * 4];
        const double numbers[] = {double(o.kind), o.magnitude,  o.more,       0,
                                  o.factors[0],   o.factors[1], o.factors[2], o.factors[3]};
        for (std::size_t n = 0; n < std::size(numbers); ++n) to[n] = float(numbers[n]);
    }
    return draws;
}

TransformImagesParams params_of(const ImageSize& size, std::size_t count) {
    TransformImagesParams p{};
    p.count = unsigned(count);
    p.height = size.height;
    p.width = size.width;
    p.channels = size.channels;
    p.slots = 3;
    p.scale_r = p.scale_g = p.scale_b = 1;
    return p;
}

std::vector<float> transformed(Device& device, TransformImagesParams p, const std::vector<float>& images,
                               const std::vector<Operation>& operations, const std::vector<float>& draws) {
    Trial trial(device, std::size_t(16) << 20);
    p.x = trial.input(images);
    p.operations = trial.input(drawn(operations, p.slot));
    p.draws = trial.input(draws);
    const Tensor y = trial.output(images.size());
    p.y = y;
    trial.run(launch(kernels::transform_images, p));
    return trial.floats(y);
}

/// On values that are whole or are not; `same`: all devices leave the same bits.
void check_operations(const ImageSize& size, const std::vector<Operation>& operations, bool whole,
                      bool same) {
    const std::size_t count = operations.size();
    const std::vector<float> images = some_images(count, size, whole);
    std::vector<std::vector<float>> all;
    on_every_device([&](Device& device) {
        TransformImagesParams p = params_of(size, count);
        p.slot = 1;
        const std::vector<float> made = transformed(device, p, images, operations, std::vector<float>(4));
        for (std::size_t i = 0; i < count; ++i) {
            INFO(size.height, "x", size.width, "x", size.channels, ", operation ", operations[i].kind, " of ",
                 operations[i].magnitude, ", ", operations[i].more);
            const auto part = [&](const std::vector<float>& values) {
                return std::span(values).subspan(i * size.elements(), size.elements());
            };
            check_near("image", part(made), operated(widen(part(images)), size, operations[i]));
        }
        if (!all.empty() && same) CHECK(all[0] == made);
        all.push_back(made);
    });
}

const ImageSize sizes[] = {{32, 32, 3}, {13, 11, 3}, {19, 28, 1}, {2, 5, 3}, {1, 1, 1}, {61, 64, 3}};

/// Magnitudes that leave no pixel halfway between two and no factor between two units
std::vector<Operation> policy_operations() {
    std::vector<Operation> all = {
        {OPERATION_NONE}, {OPERATION_IDENTITY}, {OPERATION_AUTOCONTRAST}, {OPERATION_EQUALIZE}};
    for (const uint kind : {OPERATION_SHEAR_X, OPERATION_SHEAR_Y})
        for (const double magnitude : {0.0, 0.09, -0.09, 0.297, -0.891}) all.push_back({kind, magnitude});
    for (const uint kind : {OPERATION_TRANSLATE_X, OPERATION_TRANSLATE_Y})
        for (const double magnitude : {0.0, 4.35, -4.35, 1.0, 32.0, -32.0}) all.push_back({kind, magnitude});
    for (const double degrees : {0.0, 9.0, -9.0, 30.0, 89.0, -135.0})
        all.push_back({OPERATION_ROTATE, degrees});
    for (const uint kind : {OPERATION_BRIGHTNESS, OPERATION_COLOR, OPERATION_CONTRAST, OPERATION_SHARPNESS})
        for (const double magnitude : {0.0, 0.28125, -0.28125, 0.984375, -0.984375})
            all.push_back({kind, magnitude});
    for (const double bits : {2.0, 5.0, 8.0}) all.push_back({OPERATION_POSTERIZE, bits});
    for (const double threshold : {0.0, 178.5, 179.0, 255.0}) all.push_back({OPERATION_SOLARIZE, threshold});
    return all;
}

} // namespace

KERNEL_TEST(transform_images, "a policy's operations change images as torchvision documents them") {
    for (const ImageSize& size : sizes)
        for (const bool whole : {true, false}) check_operations(size, policy_operations(), whole, true);
}

TEST_CASE("rotation, jitter in any order, grayscale and blur change images as documented") {
    for (const ImageSize& size : sizes) {
        std::vector<Operation> operations;
        for (const double degrees : {0.0, 12.3, -77.7, 178.9, 350.1})
            for (const double bilinear : {0.0, 1.0})
                operations.push_back({OPERATION_ROTATION, degrees, bilinear});
        for (uint order = 0; order < 24; ++order)
            operations.push_back(
                {OPERATION_JITTER,
                 double(order % 5 == 4 ? 16 : 15 + 16 * (order % 2)),
                 double(order),
                 {0.6 + 0.05 * order, 1.5 - 0.04 * order, 0.1 * order, -0.5 + 0.04 * order}});
        for (const uint parts : {1u, 2u, 4u, 8u, 6u, 9u})
            operations.push_back({OPERATION_JITTER, double(parts), 17, {0.7, 1.3, 0.4, 0.3}});
        const unsigned shorter = std::min(size.height, size.width);
        for (const uint kind : {OPERATION_BLUR_ROWS, OPERATION_BLUR_COLUMNS})
            for (const double taps : {1.0, 3.0, 21.0, 63.0})
                if (uint(taps) / 2 < shorter) operations.push_back({kind, 0.3 * taps, taps});
        check_operations(size, operations, false, false);
    }
}

TEST_CASE("large images are changed to their last pixel") {
    // llvmpipe ends all loops of an invocation after 65535 rounds in sum.
    check_operations({160, 160, 3}, {{OPERATION_SHARPNESS, 0.984375}, {OPERATION_BLUR_COLUMNS, 6.9, 63}},
                     false, false);
}

TEST_CASE("the last operation leaves the network's values, and the cutout") {
    const ImageSize size{9, 14, 3};
    const std::vector<Operation> operations = {
        {OPERATION_NONE}, {OPERATION_SOLARIZE, 100.0}, {OPERATION_EQUALIZE}};
    const std::vector<float> images = some_images(3, size, true);
    std::vector<float> draws(3 * AUGMENT_DRAWS * 4, 99.0f);
    for (std::size_t i = 0; i < 3; ++i) {
        draws[(i * AUGMENT_DRAWS + 2) * 4 + 1] = float(i);     // top
        draws[(i * AUGMENT_DRAWS + 2) * 4 + 2] = float(3 * i); // left
    }
    on_every_device([&](Device& device) {
        TransformImagesParams p = params_of(size, 3);
        p.slot = 2;
        p.cutout = 4;
        p.centre_r = 120, p.centre_g = 110, p.centre_b = 100;
        p.scale_r = 0.02f, p.scale_g = 0.03f, p.scale_b = 0.04f;
        const std::vector<float> made = transformed(device, p, images, operations, draws);
        for (std::size_t i = 0; i < 3; ++i) {
            const auto part = [&](const std::vector<float>& values) {
                return std::span(values).subspan(i * size.elements(), size.elements());
            };
            Values expected = operated(widen(part(images)), size, operations[i]);
            for (std::size_t at = 0; at < expected.size(); ++at) {
                const std::size_t c = at % 3, row = at / 3 / size.width, column = at / 3 % size.width;
                const double centre = c == 0 ? 120 : c == 1 ? 110 : 100;
                const double scale = double(c == 0 ? 0.02f : c == 1 ? 0.03f : 0.04f);
                const bool cut = row >= i && row < i + 4 && column >= 3 * i && column < 3 * i + 4;
                expected[at] = cut ? 0 : (expected[at] - centre) * scale;
            }
            check_near("image", part(made), expected);
        }
    });
}

} // namespace towers
