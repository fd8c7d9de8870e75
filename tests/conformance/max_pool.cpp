#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::padded_pool;
using reference::same_pool;
using reference::valid_pool;
using reference::Values;
using reference::Words;

const std::vector<PoolShape>& shapes() {
    static const std::vector<PoolShape> all{
        same_pool(1, 1, 1, 1, 1, 1),
        same_pool(3, 1, 1, 3, 3, 2),
        same_pool(1, 5, 7, 13, 3, 2),
        same_pool(3, 5, 7, 127, 2, 2),
        same_pool(3, 12, 12, 64, 3, 2), // as in the tutorial
        same_pool(1, 12, 12, 3, 3, 1),
        same_pool(1, 5, 7, 4, 5, 3),
        same_pool(3, 5, 7, 8, 1, 2),
        valid_pool(1, 12, 12, 1, 2, 2),
        valid_pool(3, 5, 7, 64, 2, 2), // the last row and column are never
                                       // read
        same_pool(1, 12, 12, 8, 11, 7),
        same_pool(1, 5, 7, 13, {{1, 3}, {1, 2}}),
        same_pool(3, 7, 5, 8, {{3, 1}, {2, 1}}),
        same_pool(1, 12, 12, 12, {{2, 5}, {3, 2}}),
        valid_pool(3, 7, 12, 4, {{2, 3}, {1, 3}}),
        valid_pool(1, 12, 7, 3, {{5, 2}, {4, 1}}),
        padded_pool(1, 5, 7, 8, {{3, 3}, {2, 2}}, {1, 1, 1, 1}), // as PyTorch places them
        padded_pool(3, 6, 5, 3, {{3, 2}, {2, 1}}, {0, 2, 1, 0}),
        valid_pool(1, 20, 18, 4, {{16, 16}, {2, 1}}), // the most places that a byte can hold
        valid_pool(1, 5, 130, 5, {{2, 128}, {1, 1}}),
    };
    return all;
}

std::string text(const PoolShape& s) {
    return fmt::format("batch {}, {}x{}x{} -> {}x{}, window {}x{}, strides {} and {}, padding {} and {}",
                       s.batch, s.in_height, s.in_width, s.channels, s.out_height, s.out_width,
                       s.window_height, s.window_width, s.stride_y, s.stride_x, s.pad_top, s.pad_left);
}

std::size_t in_size(const PoolShape& s) {
    return std::size_t(s.batch) * s.in_height * s.in_width * s.channels;
}
std::size_t out_pixels(const PoolShape& s) { return std::size_t(s.batch) * s.out_height * s.out_width; }
std::size_t argmax_words(const PoolShape& s) { return out_pixels(s) * ((s.channels + 3) / 4); }

/// Converts between one word for four channels and one word for each channel.
Words unpack(const PoolShape& s, const Words& argmax) {
    Words places;
    const std::size_t quads = (s.channels + 3) / 4;
    for (std::size_t i = 0; i < out_pixels(s); ++i)
        for (std::size_t c = 0; c < s.channels; ++c)
            places.push_back(argmax[i * quads + c / 4] >> c % 4 * 8 & 255);
    return places;
}
Words pack(const PoolShape& s, const Words& places) {
    const std::size_t quads = (s.channels + 3) / 4;
    Words argmax(argmax_words(s));
    for (std::size_t i = 0; i < places.size(); ++i)
        argmax[i / s.channels * quads + i % s.channels / 4] |= places[i] << i % s.channels % 4 * 8;
    return argmax;
}

void check_forward(const PoolShape& s, const std::vector<float>& values) {
    INFO(text(s));
    const reference::Pooled expected = reference::max_pool(s, widen(values));
    on_every_device([&](Device& device) {
        Trial trial(device);
        const Tensor x = trial.input(values);
        const Tensor y = trial.output(out_pixels(s) * s.channels), argmax = trial.output(argmax_words(s));
        trial.run(launch(kernels::max_pool_forward, {x, y, argmax, s}));
        check_near("y", trial.floats(y), expected.y, 0); // a maximum is not rounded
        const bool same_places = unpack(s, trial.words(argmax)) == expected.places;
        CHECK(same_places);
    });
}

} // namespace

KERNEL_TEST(max_pool_forward, "pooling keeps the strongest response, and the first of equal ones") {
    for (const PoolShape& s : shapes()) {
        check_forward(s, random_floats(in_size(s), 1));
        check_forward(s, random_floats(in_size(s), 2, -9, -8)); // padding never wins

        // After a ReLU most windows hold equal values.
        std::vector<float> ties = random_floats(in_size(s), 3, -3, 3);
        for (float& value : ties) value = float(std::max(int(value), 0));
        check_forward(s, ties);
    }
}

TEST_CASE("a NaN or an infinity is the maximum of its windows, so that divergence shows") {
    for (const PoolShape& s : {same_pool(1, 5, 7, 13, 3, 2), same_pool(3, 12, 12, 64, 3, 2)}) {
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            INFO("with ", bad);
            std::vector<float> values = random_floats(in_size(s), 1);
            values[0] = values[values.size() / 2] = bad;
            check_forward(s, values);
        }
    }
}

KERNEL_TEST(max_pool_backward, "the gradient goes to the pixels that won their windows") {
    for (const PoolShape& s : shapes()) {
        INFO(text(s));
        const Words places = reference::max_pool(s, widen(random_floats(in_size(s), 1))).places;
        const std::vector<float> gradient = random_floats(places.size(), 2);
        const Values expected = reference::max_pool_gradient(s, places, widen(gradient));
        on_every_device([&](Device& device) {
            Trial trial(device);
            const Tensor dy = trial.input(gradient), argmax = trial.input(pack(s, places));
            const Tensor dx = trial.output(in_size(s));
            trial.run(launch(kernels::max_pool_backward, {dy, argmax, dx, s}));
            check_near("dx", trial.floats(dx), expected);
        });
    }
}

TEST_CASE("the reference pooling gradient is the gradient of pooling") {
    for (const PoolShape& s :
         {same_pool(2, 5, 7, 3, 3, 2), same_pool(1, 4, 4, 5, 3, 1), valid_pool(1, 5, 4, 2, 2, 2),
          same_pool(1, 5, 7, 2, 1, 2), padded_pool(1, 6, 5, 3, {{3, 2}, {2, 1}}, {0, 2, 1, 0})}) {
        INFO(text(s));
        const Values x = widen(random_floats(in_size(s), 1));
        const reference::Pooled pooled = reference::max_pool(s, x);
        const Values dy = widen(random_floats(pooled.y.size(), 2));
        const auto by_x = [&](const Values& v) { return reference::dot(reference::max_pool(s, v).y, dy); };
        CHECK(reference::relative_error(reference::max_pool_gradient(s, pooled.places, dy),
                                        reference::finite_differences(x, by_x)) < 1e-8);
    }
}

} // namespace towers
