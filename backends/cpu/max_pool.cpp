#include "backends/cpu/overrides.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <vector>

// Pooling in loops along the channels that the compiler vectorizes. oneDNN's forward pass would lose a NaN
// and so hide a divergence; its backward pass took four times as long as this one.

namespace towers {
namespace {

/// The first window along an axis that contains the place, counted from the padding's beginning.
[[gnu::always_inline]] inline uint first_window(uint place, uint window, uint stride) {
    return place < window ? 0u : (place - window) / stride + 1u;
}

template<bool add>
[[gnu::always_inline]] inline void add_where(const std::uint8_t* __restrict argmax, std::uint8_t here,
                                             const float* __restrict dy, float* __restrict dx,
                                             uint channels) {
    for (uint c = 0; c < channels; ++c) {
        const float part = std::uint32_t(argmax[c]) == std::uint32_t(here) ? dy[c] : 0.0f;
        dx[c] = add ? dx[c] + part : part;
    }
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void max_pool_forward(const MaxPoolForwardParams& p, Invocation invocation) {
    const PoolShape& s = p.shape;
    std::vector<float> best(s.channels);
    std::vector<std::uint32_t> place(s.channels);
    const uint pixels = s.batch * s.out_height * s.out_width;
    const uint end = invocation.end(pixels);
    for (uint pixel = invocation.begin(pixels); pixel < end; ++pixel) {
        const uint column = pixel % s.out_width;
        const uint row = pixel / s.out_width % s.out_height;
        const std::size_t image = pixel / s.out_width / s.out_height;
        float* const values = best.data();
        std::uint32_t* const places = place.data();
        bool found = false;
        for (uint ky = 0; ky < s.window_height; ++ky) {
            for (uint kx = 0; kx < s.window_width; ++kx) {
                const uint y = row * s.stride_y + ky - s.pad_top;
                const uint x = column * s.stride_x + kx - s.pad_left;
                if (y >= s.in_height || x >= s.in_width) continue; // unsigned: also above and left
                const float* const in = p.x.at + ((image * s.in_height + y) * s.in_width + x) * s.channels;
                const std::uint32_t here = ky * s.window_width + kx;
                if (!found) {
                    for (uint c = 0; c < s.channels; ++c) values[c] = in[c];
                    for (uint c = 0; c < s.channels; ++c) places[c] = here;
                    found = true;
                    continue;
                }
                INDEPENDENT
                for (uint c = 0; c < s.channels; ++c) {
                    const bool wins = (in[c] > values[c]) | (in[c] != in[c]);
                    values[c] = wins ? in[c] : values[c];
                    places[c] = wins ? here : places[c];
                }
            }
        }
        float* const out = p.y.at + std::size_t(pixel) * s.channels;
        auto* const argmax = reinterpret_cast<std::uint8_t*>(p.argmax.at) + std::size_t(pixel) * s.channels;
        for (uint c = 0; c < s.channels; ++c) out[c] = values[c];
        INDEPENDENT
        for (uint c = 0; c < s.channels; ++c) argmax[c] = std::uint8_t(places[c]);
    }
}

/// Each pixel of dx is the sum over the windows that contain it and in which it is the maximum.
FOR_EACH_PROCESSOR_LEVEL
void max_pool_backward(const MaxPoolBackwardParams& p, Invocation invocation) {
    const PoolShape& s = p.shape;
    const auto* const argmax = reinterpret_cast<const std::uint8_t*>(p.argmax.at);
    const uint rows = s.batch * s.in_height, end = invocation.end(rows);
    for (uint row = invocation.begin(rows); row < end; ++row) {
        const uint image = row / s.in_height, y = row % s.in_height + s.pad_top;
        for (uint column = 0; column < s.in_width; ++column) {
            const uint x = column + s.pad_left;
            float* const dx = p.dx.at + (std::size_t(row) * s.in_width + column) * s.channels;
            bool found = false;
            for (uint oy = first_window(y, s.window_height, s.stride_y); oy * s.stride_y <= y; ++oy) {
                if (oy >= s.out_height) break;
                for (uint ox = first_window(x, s.window_width, s.stride_x); ox * s.stride_x <= x; ++ox) {
                    if (ox >= s.out_width) break;
                    const auto here =
                        std::uint8_t((y - oy * s.stride_y) * s.window_width + x - ox * s.stride_x);
                    const std::size_t window =
                        ((std::size_t(image) * s.out_height + oy) * s.out_width + ox) * s.channels;
                    if (found)
                        add_where<true>(argmax + window, here, p.dy.at + window, dx, s.channels);
                    else
                        add_where<false>(argmax + window, here, p.dy.at + window, dx, s.channels);
                    found = true;
                }
            }
            if (!found)
                for (uint c = 0; c < s.channels; ++c) dx[c] = 0.0f;
        }
    }
}

namespace {

// Elsewhere argmax has gaps between pixels.
template<class Params>
std::optional<LaunchConfig> config(const Launch& launch, const DeviceFacts&) {
    if (launch.parameters.as<Params>().shape.channels % 4 != 0) return {};
    return LaunchConfig{};
}

} // namespace

std::span<const CpuVariant> max_pool_overrides() {
    static constexpr CpuVariant overrides[] = {
        vectorized<kernels::max_pool_forward, max_pool_forward>(config<MaxPoolForwardParams>),
        vectorized<kernels::max_pool_backward, max_pool_backward>(config<MaxPoolBackwardParams>)};
    return overrides;
}

} // namespace towers
