#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>
#include <cstring>

// Kernels that treat channels or tensors differently, written as loops over one channel or tensor so that the
// compiler vectorizes them. It cannot vectorize the shared sources, which for each element divide its index
// to find the channel, or check which tensors exist.

namespace towers {

namespace {

template<bool masked, bool relu>
[[gnu::always_inline]] inline void add(const AddTensorsParams& p, Invocation invocation) {
    constexpr uint most = 1024; // the partial sum stays in the first-level cache
    float sums[most];
    const uint end = invocation.end(p.count);
    for (uint first = invocation.begin(p.count); first < end; first += most) {
        const uint count = std::min(most, end - first);
        const float* sum = p.x[0].at + first;
        for (uint tensor = 1; tensor + 1 < p.tensors; ++tensor) {
            const float* const x = p.x[tensor].at + first;
            INDEPENDENT
            for (uint i = 0; i < count; ++i) sums[i] = sum[i] + x[i];
            sum = sums;
        }
        const float* const mask = masked ? p.mask.at + first : nullptr;
        float* const y = p.y.at + first;
        const auto write = [&](uint i, float value) __attribute__((always_inline)) {
            if constexpr (masked) value = mask[i] > 0.0f ? value : 0.0f;
            if constexpr (relu) value = value < 0.0f ? 0.0f : value;
            y[i] = value;
        };
        if (p.tensors > 1) {
            const float* const x = p.x[p.tensors - 1].at + first;
            INDEPENDENT
            for (uint i = 0; i < count; ++i) write(i, sum[i] + x[i]);
        } else {
            INDEPENDENT
            for (uint i = 0; i < count; ++i) write(i, sum[i]);
        }
    }
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void add_tensors(const AddTensorsParams& p, Invocation invocation) {
    if (p.masked != 0)
        p.relu != 0 ? add<true, true>(p, invocation) : add<true, false>(p, invocation);
    else
        p.relu != 0 ? add<false, true>(p, invocation) : add<false, false>(p, invocation);
}

FOR_EACH_PROCESSOR_LEVEL
void multiply(const MultiplyParams& p, Invocation invocation) {
    const uint pixels = p.batch * p.pixels;
    if (p.broadcast == 0) {
        const std::size_t end = invocation.end(pixels * p.channels);
        INDEPENDENT
        for (std::size_t i = invocation.begin(pixels * p.channels); i < end; ++i)
            p.y.at[i] = p.a.at[i] * p.b.at[i];
        return;
    }
    for (uint pixel = invocation.begin(pixels); pixel < invocation.end(pixels); ++pixel) {
        const std::size_t base = std::size_t(pixel) * p.channels;
        const float* const a = p.a.at + base;
        const float* const b = p.b.at + std::size_t(pixel / p.pixels) * p.channels;
        float* const y = p.y.at + base;
        INDEPENDENT
        for (uint c = 0; c < p.channels; ++c) y[c] = a[c] * b[c];
    }
}

FOR_EACH_PROCESSOR_LEVEL
void multiply_backward_scale(const MultiplyBackwardScaleParams& p, Invocation invocation) {
    constexpr uint most = 256; // channels of one image per item: their sums fit into the first-level cache
    constexpr uint run = 64;   // pixels per partial sum, so that rounding errors do not accumulate
    const uint blocks = (p.channels + most - 1) / most;
    for (uint i = invocation.begin(p.batch * blocks); i < invocation.end(p.batch * blocks); ++i) {
        const uint first = i % blocks * most;
        const uint channels = std::min(most, p.channels - first);
        const std::size_t image = i / blocks;
        float sums[most] = {};
        for (uint pixel = 0; pixel < p.pixels; pixel += run) {
            float part[most] = {};
            for (uint k = pixel; k < std::min(pixel + run, p.pixels); ++k) {
                const std::size_t base = (image * p.pixels + k) * p.channels + first;
                const float* const a = p.a.at + base;
                const float* const dy = p.dy.at + base;
                for (uint c = 0; c < channels; ++c) part[c] += dy[c] * a[c];
            }
            for (uint c = 0; c < channels; ++c) sums[c] += part[c];
        }
        std::copy_n(sums, channels, p.db.at + image * p.channels + first);
    }
}

namespace {

void copy_channels(const CopyChannelsParams& p, Invocation invocation) {
    for (uint pixel = invocation.begin(p.pixels); pixel < invocation.end(p.pixels); ++pixel)
        std::memcpy(p.y.at + std::size_t(pixel) * p.target_stride + p.target_first,
                    p.x.at + std::size_t(pixel) * p.source_stride + p.source_first,
                    p.channels * sizeof(float));
}

} // namespace

std::span<const CpuVariant> channels_overrides() {
    static constexpr CpuVariant overrides[] = {
        vectorized<kernels::add_tensors, add_tensors>(), vectorized<kernels::multiply, multiply>(),
        vectorized<kernels::multiply_backward_scale, multiply_backward_scale>(),
        vectorized<kernels::copy_channels, copy_channels>()};
    return overrides;
}

} // namespace towers
