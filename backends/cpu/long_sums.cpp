#include "backends/cpu/long_sums.h"

#include "backends/cpu/lines.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <omp.h>
#include <vector>

namespace towers {
namespace {

/// sums += `count` lines
template<uint count>
[[gnu::always_inline]] inline void add_lines(const float* __restrict x, float* __restrict sums,
                                             std::size_t width, std::size_t stride) {
    INDEPENDENT
    for (std::size_t i = 0; i < width; ++i) {
        float sum = sums[i];
        for (std::size_t line = 0; line < count; ++line) sum += x[line * stride + i];
        sums[i] = sum;
    }
}

constexpr std::size_t block = 512; ///< rows that are added up one after another

} // namespace

/// Adds the sum of rows [first, end) of x[rows, channels] to total[channels]. `scratch`: zeros, a line's and
/// a row's.
FOR_EACH_PROCESSOR_LEVEL
void add_rows(const float* x, std::size_t channels, std::size_t first, std::size_t end, float* total,
              float* scratch) {
    const Lines lines{uint(channels)};
    float *const line = scratch, *const sums = line + lines.width();
    for (std::size_t part = 1; first < end; first += block, ++part) {
        for_lines(
            lines, uint(std::min(block, end - first)),
            [&](auto count, std::size_t offset, uint width) __attribute__((always_inline)) {
                add_lines<count>(x + first * channels + offset, line, width, lines.width());
            });
        join_rows(lines, line);
        move_into(sums, line, channels);
        std::fill_n(line, lines.width(), 0.0f);
        if (part % parts_of_sum == 0) move_into(total, sums, channels);
    }
    move_into(total, sums, channels);
}

void bias_gradient(const CpuContext& context, const Conv2dBackwardWeightsParams& p) {
    const std::size_t channels = p.shape.out_channels;
    const std::size_t pixels = std::size_t(p.shape.batch) * p.shape.out_height * p.shape.out_width;
    const std::size_t threads = std::clamp<std::size_t>(pixels / block, 1, context.threads);
    const std::size_t own = 2 * channels + Lines(uint(channels)).width();
    std::vector<float> sums(own * threads); // each thread's total and scratch memory
// All of the team, since OpenMP's library would end the threads that are left out
#pragma omp parallel for num_threads(int(context.threads)) if (threads > 1)
    for (std::size_t thread = 0; thread < threads; ++thread)
        add_rows(p.dy.at, channels, pixels * thread / threads, pixels * (thread + 1) / threads,
                 sums.data() + own * thread, sums.data() + own * thread + channels);
    for (std::size_t thread = 1; thread < threads; ++thread)
        move_into(sums.data(), sums.data() + own * thread, channels);
    std::copy_n(sums.data(), channels, p.db.at);
}

} // namespace towers
