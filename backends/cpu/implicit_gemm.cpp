#include "backends/cpu/level.h"
#include "backends/cpu/long_sums.h"
#include "backends/cpu/overrides.h"

#include <algorithm>
#include <omp.h>
#include <optional>

// Chooses and plans convolutions of few channels (implicit_gemm.h says how they are computed). Threads share
// out the images.

namespace towers {
namespace {

ImplicitGemmShape shape_of(const ConvShape& s) {
    return {s.in_height,     s.in_width,     s.in_channels, s.out_height, s.out_width, s.out_channels,
            s.kernel_height, s.kernel_width, s.stride_y,    s.stride_x,   s.pad_top,   s.pad_left};
}

/// Calls pass(first image, end, scratch) on each thread.
template<class Pass>
void on_images(const CpuContext& context, std::size_t images, float* scratch, std::size_t own, Pass pass) {
#pragma omp parallel num_threads(int(context.threads))
    {
        const auto thread = std::size_t(omp_get_thread_num()), team = std::size_t(omp_get_num_threads());
        pass(images * thread / team, images * (thread + 1) / team, scratch + own * thread);
    }
}

Work forward(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<Conv2dForwardParams>();
    const ImplicitGemmForward pass{.shape = shape_of(p.shape),
                                   .x = p.x.at,
                                   .w = p.w.at,
                                   .y = p.y.at,
                                   .bias = p.bias != 0 ? p.b.at : nullptr,
                                   .relu = p.relu != 0};
    const std::size_t own = pass.shape.scratch();
    const Scratch memory = Scratch::of_floats(context, own * context.threads);
    return [&context, pass, own, images = std::size_t(p.shape.batch), memory] {
        on_images(context, images, memory.floats(), own,
                  [&](std::size_t first, std::size_t end, float* scratch) {
                      level_code()->implicit_gemm.forward(pass, first, end, scratch);
                  });
    };
}

/// Scratch memory: each thread's padded input, then each thread's dw and db as sums of two levels.
Work backward_weights(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
    const ImplicitGemmShape s = shape_of(p.shape);
    const std::size_t own = s.scratch(), weights = s.depth() * s.out_channels, threads = context.threads;
    const std::size_t sums = weights + (p.bias != 0 ? s.out_channels : 0);
    const Scratch memory = Scratch::of_floats(context, (own + 2 * sums) * threads);
    return [&context, p, s, own, weights, sums, threads, memory] {
        float* const scratch = memory.floats();
        float* const totals = scratch + own * threads;
        float* const parts = totals + sums * threads;
        std::fill_n(totals, 2 * sums * threads, 0.0f); // OpenMP may give fewer threads
        // So many images' rows are added up one after another.
        const std::size_t at_once = std::max<std::size_t>(parts_of_sum * s.rows_at_once() / s.out_height, 1);
        on_images(context, p.shape.batch, scratch, own,
                  [&](std::size_t first, std::size_t end, float* padded) {
                      const auto thread = std::size_t(omp_get_thread_num());
                      float* const part = parts + sums * thread;
                      for (; first < end; first += at_once) {
                          level_code()->implicit_gemm.gradient({.shape = s,
                                                                .x = p.x.at,
                                                                .dy = p.dy.at,
                                                                .dw = part,
                                                                .db = p.bias != 0 ? part + weights : nullptr},
                                                               first, std::min(first + at_once, end), padded);
                          move_into(totals + sums * thread, part, sums);
                      }
                  });
        for (std::size_t i = 0; i < sums; ++i) {
            float sum = totals[i];
            for (std::size_t thread = 1; thread < threads; ++thread) sum += totals[thread * sums + i];
            (i < weights ? p.dw.at[i] : p.db.at[i - weights]) = sum;
        }
    };
}

template<class Params>
std::optional<LaunchConfig> config(const Launch& launch, const DeviceFacts& facts) {
    const ConvShape s = launch.parameters.as<Params>().shape;
    const LevelCode* const level = level_code();
    const bool fits = level != nullptr && s.groups == 1 && s.dilation_y == 1 && s.dilation_x == 1 &&
                      s.kernel_height * s.kernel_width > 1 && s.in_channels <= level->few_channels &&
                      s.out_channels % implicit_gemm_columns == 0 && s.batch >= facts.busy_groups;
    if (!fits) return {};
    constexpr double of_onednn = 0.5; // measured with AVX2 and 3 channels
    return LaunchConfig{.cost = of_onednn * multiplications(s, false)};
}

} // namespace

std::span<const CpuVariant> implicit_gemm_overrides() {
    constexpr const char* name = "implicit GEMM";
    static constexpr CpuVariant overrides[] = {
        {{Kernel::conv2d_forward, name, config<Conv2dForwardParams>}, forward},
        {{Kernel::conv2d_backward_weights, name, config<Conv2dBackwardWeightsParams>}, backward_weights}};
    return overrides;
}

} // namespace towers
