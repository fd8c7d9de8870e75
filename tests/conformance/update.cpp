#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::Values;

const std::uint32_t lengths[] = {1, 13, 127, 1031};

} // namespace

KERNEL_TEST(accumulate_gradients, "the gradients of further micro-batches are added to the first's") {
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        const std::vector<float> first = random_floats(quads * 4, 1), further = random_floats(quads * 4, 2);
        Values expected(quads * 4);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = double(first[i]) + further[i];
        on_every_device([&](Device& device) {
            Trial trial(device);
            const Tensor sum = trial.in_out(first);
            trial.run(launch(kernels::accumulate_gradients, {trial.input(further), sum, quads}));
            check_near("sum", trial.floats(sum), expected);
        });
    }
}

KERNEL_TEST(sum_partials, "no part of a split gradient is lost") {
    EverySource sources;
    for (const std::uint32_t count : {1u, 13u, 127u, 4099u})
        for (const std::uint32_t parts : {1u, 2u, 3u, 7u, 13u, 29u, 64u, 130u}) {
            INFO(count, " elements, ", parts, " parts");
            const std::vector<float> values = random_floats(std::size_t(parts) * count, 1, 0, 1);
            Values expected(count);
            for (std::size_t i = 0; i < values.size(); ++i) expected[i % count] += values[i];
            sources.run([&](Device& device) {
                Trial trial(device);
                const Tensor partials = trial.input(values), sum = trial.output(count);
                trial.run(launch(
                    kernels::sum_partials,
                    {.partials = partials, .sum = sum, .parts = parts, .count = count, .channels = count}));
                check_near("sum", trial.floats(sum), expected);
            });
        }
}

TEST_CASE("a split convolution's bias, ReLU and mask act on the sum of its parts") {
    EverySource sources;
    for (const std::uint32_t channels : {13u, 16u})
        for (const std::uint32_t parts : {3u, 40u}) {
            const std::uint32_t count = channels * 79;
            const std::vector<float> values = random_floats(parts * count, 1), b = random_floats(channels, 2),
                                     x = random_floats(count, 3);
            Values sums(count), active(count), masked(count);
            for (std::size_t i = 0; i < values.size(); ++i) sums[i % count] += values[i];
            for (std::size_t i = 0; i < count; ++i) {
                active[i] = std::max(0.0, sums[i] + double(b[i % channels]));
                masked[i] = x[i] > 0 ? sums[i] : 0;
            }
            sources.run([&](Device& device) {
                const auto finished = [&](SumPartialsParams p) {
                    Trial trial(device);
                    p.partials = trial.input(values);
                    if (p.bias != 0) p.b = trial.input(b);
                    if (p.masked != 0) p.x = trial.input(x);
                    const Tensor sum = trial.output(count);
                    p.sum = sum;
                    p.parts = parts;
                    p.count = count;
                    trial.run(launch(kernels::sum_partials, p));
                    return trial.floats(sum);
                };
                check_near("y", finished({.channels = channels, .bias = 1, .relu = 1}), active);
                check_near("dx", finished({.channels = channels, .masked = 1}), masked);
            });
        }
}

TEST_CASE("the sum of padded parts leaves the padding out") {
    EverySource sources;
    struct Sizes {
        std::uint32_t outer, rows, channels, padded_rows, padded_channels;
    };
    for (const auto& [outer, rows, channels, padded_rows, padded_channels] :
         {Sizes{1, 1, 1, 1, 4}, Sizes{25, 3, 64, 4, 64}, Sizes{9, 6, 10, 8, 12}, Sizes{127, 1, 13, 1, 16}})
        for (const std::uint32_t parts : {1u, 3u, 20u}) {
            INFO(outer, " x ", rows, " x ", channels, " of ", padded_rows, " x ", padded_channels);
            const std::uint32_t count = outer * rows * channels;
            std::vector<float> values = random_floats(parts * outer * padded_rows * padded_channels, 1);
            const std::vector<float> b = random_floats(channels, 2);
            Values expected(count);
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t channel = i % padded_channels, row = i / padded_channels % padded_rows;
                if (channel < channels && row < rows)
                    expected[(i / padded_channels / padded_rows % outer * rows + row) * channels + channel] +=
                        values[i];
                else
                    values[i] = std::numeric_limits<float>::quiet_NaN();
            }
            for (std::size_t i = 0; i < count; ++i) expected[i] += b[i % channels];
            sources.run([&](Device& device) {
                Trial trial(device);
                const Tensor partials = trial.input(values), bias = trial.input(b), sum = trial.output(count);
                trial.run(launch(kernels::sum_partials, {.partials = partials,
                                                         .b = bias,
                                                         .sum = sum,
                                                         .parts = parts,
                                                         .count = count,
                                                         .channels = channels,
                                                         .bias = 1,
                                                         .rows = rows,
                                                         .padded_rows = padded_rows,
                                                         .padded_channels = padded_channels}));
                check_near("sum", trial.floats(sum), expected);
            });
        }
}

KERNEL_TEST(pad_channels, "the first layer sees all channels of its images, and zeros beside them") {
    for (const PadChannelsParams& s :
         {PadChannelsParams{{}, {}, 1, 1, 1, 1, 4}, PadChannelsParams{{}, {}, 1, 127, 3, 127, 4},
          PadChannelsParams{{}, {}, 25, 3, 64, 4, 64}, PadChannelsParams{{}, {}, 9, 6, 10, 8, 12},
          PadChannelsParams{{}, {}, 3, 5, 13, 13, 64}}) {
        INFO(s.outer, " x ", s.rows, " x ", s.channels, " to ", s.padded_rows, " x ", s.padded_channels);
        const std::vector<float> values = random_floats(s.outer * s.rows * s.channels, 1);
        Values expected(s.outer * s.padded_rows * s.padded_channels);
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::size_t row = i / s.channels;
            expected[(row / s.rows * s.padded_rows + row % s.rows) * s.padded_channels + i % s.channels] =
                values[i];
        }
        on_every_device([&](Device& device) {
            Trial trial(device);
            PadChannelsParams p = s;
            p.x = trial.input(values);
            const Tensor y = trial.output(expected.size());
            p.y = y;
            trial.run(launch(kernels::pad_channels, p));
            check_near("y", trial.floats(y), expected, 0);
        });
    }
}

KERNEL_TEST(window_rows, "the first layer sees each row of its windows, and zeros beside the images") {
    struct Case {
        uint rows, in_width, channels, kernel_width, stride_x, pad_left, pad_right;
    };
    for (const auto& [rows, in_width, channels, kernel_width, stride_x, pad_left, pad_right] :
         {Case{1, 1, 1, 2, 1, 0, 1}, Case{7, 5, 3, 5, 1, 2, 2}, Case{6, 13, 3, 7, 2, 3, 3},
          Case{5, 8, 1, 3, 3, 0, 0}, Case{2, 3, 13, 9, 1, 4, 4}, Case{3, 4, 2, 2, 5, 3, 1}}) {
        INFO(rows, " rows of ", in_width, " x ", channels, ", windows of ", kernel_width, ", stride ",
             stride_x);
        const uint out_width = (in_width + pad_left + pad_right - kernel_width) / stride_x + 1;
        for (const uint padded_row : {QUADS_OF(kernel_width * channels) * 4, 64 * kernel_width}) {
            const std::vector<float> values = random_floats(rows * in_width * channels, 1);
            Values expected;
            for (uint row = 0; row < rows; ++row)
                for (uint place = 0; place < out_width; ++place)
                    for (uint i = 0; i < padded_row; ++i) {
                        const int column = int(place * stride_x + i / channels) - int(pad_left);
                        const bool is_there =
                            i < kernel_width * channels && column >= 0 && column < int(in_width);
                        expected.push_back(
                            is_there ? values[(row * in_width + uint(column)) * channels + i % channels] : 0);
                    }
            on_every_device([&](Device& device) {
                Trial trial(device);
                const Tensor x = trial.input(values), y = trial.output(expected.size());
                trial.run(launch(kernels::window_rows, {x, y, rows, in_width, channels, out_width,
                                                        kernel_width, stride_x, pad_left, padded_row}));
                check_near("y", trial.floats(y), expected, 0);
            });
        }
    }
}

} // namespace towers
