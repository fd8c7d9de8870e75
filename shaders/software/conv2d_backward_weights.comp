#include "software/conv2d.h"

// a = x, b = dy, c = dw, bias_gradient = db. Workgroups: x tiles of weights' rows, y tiles of output channels, z
// parts of the sum over pixels. TAPS: all rows of a tile lie in one tap.
void main() {
    const int lane = int(gl_SubgroupInvocationID);
    const int height = int(p.shape.in_height), width = int(p.shape.in_width), channels = int(p.shape.in_channels);
    const int out_height = int(p.shape.out_height), out_width = int(p.shape.out_width);
    const int kernel_height = int(p.shape.kernel_height), kernel_width = int(p.shape.kernel_width);
    const int columns = int(p.shape.out_channels);
    const int pixels = int(p.shape.batch) * out_height * out_width;
    const int rows = kernel_height * kernel_width * channels;
    const int row = int(gl_WorkGroupID.x) * TILE_ROWS;
    const int part = int(gl_WorkGroupID.z);
    const int column = int(gl_WorkGroupID.y) * 4 * int(gl_SubgroupSize) + 4 * lane;
    const int c0 = min(column, columns - 1), c1 = min(column + 1, columns - 1);
    const int c2 = min(column + 2, columns - 1), c3 = min(column + 3, columns - 1);
    const int chunks = (pixels + CHUNK - 1) / CHUNK;
    const int part_pixels = (chunks + int(p.splits) - 1) / int(p.splits) * CHUNK;
    const int begin = part * part_pixels, end = min(begin + part_pixels, pixels);

    const int tap = row / channels;
    int channel = row - tap * channels, ky = tap / kernel_width, kx = tap - tap / kernel_width * kernel_width;
    const int tap_y = ky, tap_x = kx, tap_offset = (ky * width + kx) * channels + channel;
#define INIT(r)                                                                                                \
    vec4 sum##r = vec4(0.0f);                                                                                  \
    const int y##r = ky, x##r = kx, at##r = (ky * width + kx) * channels + channel;                            \
    channel += 1;                                                                                              \
    kx += channel == channels ? 1 : 0;                                                                         \
    channel = channel == channels ? 0 : channel;                                                               \
    ky += kx == kernel_width ? 1 : 0;                                                                          \
    kx = kx == kernel_width ? 0 : kx;
    ROWS(INIT)

    vec4 bias_sum = vec4(0.0f);
#define DECLARE(s) vec4 b##s;
    STEPS(DECLARE)
    for (int first = begin; first < end; first += CHUNK) {
        const int pixel = min(first + lane, pixels - 1);
        const int line = pixel / out_width;
        const int image = line / out_height;
        const int x = pixel - line * out_width - int(p.shape.pad_left);
        const int pixel_y = line - image * out_height - int(p.shape.pad_top);
        const int base = ((image * height + pixel_y) * width + x) * channels;
        // Lanes beyond the chunk or the part read padding, and no lane shuffles from them.
        const int y = first + lane < end ? pixel_y : NOWHERE;
#define LOAD(s)                                                                                                \
    FETCH(min(first + s, pixels - 1), b##s)                                                                    \
    bias_sum += first + s < end ? b##s : vec4(0.0f);
        STEPS(LOAD)
        if (TAPS) {
            const bool inside = uint(y + tap_y) < uint(height) && uint(x + tap_x) < uint(width);
            const int from = inside ? base + tap_offset : 0;
#define ROW_IN_TAP(r)                                                                                          \
    {                                                                                                          \
        float a = p.a.at[from + r];                                                                            \
        a = inside ? a : 0.0f;                                                                                 \
        MACS(r, a)                                                                                             \
    }
            ROWS(ROW_IN_TAP)
        } else {
#define ROW(r)                                                                                                 \
    {                                                                                                          \
        const bool inside = uint(y + y##r) < uint(height) && uint(x + x##r) < uint(width);                     \
        float a = p.a.at[inside ? base + at##r : 0];                                                           \
        a = inside ? a : 0.0f;                                                                                 \
        MACS(r, a)                                                                                             \
    }
            ROWS(ROW)
        }
    }

#define STORE_ONE(target, to, lane_column, value)                                                              \
    if (column + lane_column < columns) target.at[to + lane_column] = value;
#define STORE(r)                                                                                               \
    if (row + r < rows) {                                                                                      \
        const int to = (part * rows + row + r) * columns + column;                                             \
        STORE_ONE(p.c, to, 0, sum##r.x) STORE_ONE(p.c, to, 1, sum##r.y)                                        \
        STORE_ONE(p.c, to, 2, sum##r.z) STORE_ONE(p.c, to, 3, sum##r.w)                                        \
    }
    ROWS(STORE)
    if (gl_WorkGroupID.x == 0u && p.bias != 0u) {
        const int to = part * columns + column;
        STORE_ONE(p.bias_gradient, to, 0, bias_sum.x) STORE_ONE(p.bias_gradient, to, 1, bias_sum.y)
        STORE_ONE(p.bias_gradient, to, 2, bias_sum.z) STORE_ONE(p.bias_gradient, to, 3, bias_sum.w)
    }
}
