#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>

// Average pooling in loops along the channels that the compiler vectorizes. It cannot vectorize the shared
// source, which gathers a window for every four channels.

namespace towers {
namespace {

using namespace dialect;
#include "shaders/average_pool.h"

/// An item is a range of channels of one pixel: their sums fit into the first-level cache, and even a global
/// mean over few images has work for all threads.
constexpr uint most = 256;

struct Place {
    uint row, column, first, channels;
    std::size_t image;
};

inline Place place_of(uint index, uint height, uint width, uint channels) {
    const uint blocks = (channels + most - 1) / most;
    const uint pixel = index / blocks;
    const uint first = index % blocks * most;
    return {pixel / width % height, pixel % width, first, std::min(most, channels - first),
            pixel / width / height};
}

inline uint items_of(uint batch, uint height, uint width, uint channels) {
    return batch * height * width * ((channels + most - 1) / most);
}

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void average_pool_forward(const AveragePoolForwardParams& p, Invocation invocation) {
    const AveragePoolShape& s = p.shape;
    const uint items = items_of(s.batch, s.out_height, s.out_width, s.channels);
    for (uint i = invocation.begin(items); i < invocation.end(items); ++i) {
        const Place place = place_of(i, s.out_height, s.out_width, s.channels);
        const AverageWindow window = average_window(s, place.row, place.column);
        float sums[most] = {};
        for (uint y = window.top; y < window.top + window.height; ++y) {
            float part[most] = {}; // per row, so that rounding errors do not accumulate
            for (uint x = window.left; x < window.left + window.width; ++x) {
                const float* const in =
                    p.x.at + ((place.image * s.in_height + y) * s.in_width + x) * s.channels + place.first;
                for (uint c = 0; c < place.channels; ++c) part[c] += in[c];
            }
            for (uint c = 0; c < place.channels; ++c) sums[c] += part[c];
        }
        float* const out =
            p.y.at + ((place.image * s.out_height + place.row) * s.out_width + place.column) * s.channels +
            place.first;
        for (uint c = 0; c < place.channels; ++c) out[c] = sums[c] / window.divisor;
    }
}

FOR_EACH_PROCESSOR_LEVEL
void average_pool_backward(const AveragePoolBackwardParams& p, Invocation invocation) {
    const AveragePoolShape& s = p.shape;
    const uint items = items_of(s.batch, s.in_height, s.in_width, s.channels);
    for (uint i = invocation.begin(items); i < invocation.end(items); ++i) {
        const Place place = place_of(i, s.in_height, s.in_width, s.channels);
        const uint y = place.row + s.pad_top, x = place.column + s.pad_left;
        const uint first_row = y < s.window_height ? 0 : (y - s.window_height) / s.stride_y + 1;
        const uint first_column = x < s.window_width ? 0 : (x - s.window_width) / s.stride_x + 1;
        float sums[most] = {};
        for (uint row = first_row; row < std::min(y / s.stride_y + 1, s.out_height); ++row)
            for (uint column = first_column; column < std::min(x / s.stride_x + 1, s.out_width); ++column) {
                const float divisor = average_window(s, row, column).divisor;
                const float* const dy =
                    p.dy.at + ((place.image * s.out_height + row) * s.out_width + column) * s.channels +
                    place.first;
                for (uint c = 0; c < place.channels; ++c) sums[c] += dy[c] / divisor;
            }
        std::copy_n(sums, place.channels,
                    p.dx.at +
                        ((place.image * s.in_height + place.row) * s.in_width + place.column) * s.channels +
                        place.first);
    }
}

std::span<const CpuVariant> average_pool_overrides() {
    static constexpr CpuVariant overrides[] = {
        vectorized<kernels::average_pool_forward, average_pool_forward>(),
        vectorized<kernels::average_pool_backward, average_pool_backward>()};
    return overrides;
}

} // namespace towers
