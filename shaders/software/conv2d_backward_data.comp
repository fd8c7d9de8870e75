#include "software/conv2d.h"

// a = dy, b = w, extra = x for the mask, c = dx. Workgroups: x tiles of input pixels, y tiles of input channels.
// QUADS and TAPS are one condition here: output channels in whole chunks.
void main() {
    const int lane = int(gl_SubgroupInvocationID);
    const int height = int(p.shape.in_height), width = int(p.shape.in_width), columns = int(p.shape.in_channels);
    const int out_height = int(p.shape.out_height), out_width = int(p.shape.out_width);
    const int kernel_height = int(p.shape.kernel_height), kernel_width = int(p.shape.kernel_width);
    const int images = int(p.shape.batch), channels = int(p.shape.out_channels);
    const int rows = images * height * width, depth = kernel_height * kernel_width * channels;
    const int row = int(gl_WorkGroupID.x) * TILE_ROWS;
    const int column = int(gl_WorkGroupID.y) * 4 * int(gl_SubgroupSize) + 4 * lane;
    // The offset of the lane's columns within a tap's weights
    const int c0 = min(column, columns - 1) * channels, c1 = min(column + 1, columns - 1) * channels;
    const int c2 = min(column + 2, columns - 1) * channels, c3 = min(column + 3, columns - 1) * channels;

    int image = row / width / height, y = row / width % height, x = row % width;
#define INIT(r)                                                                                                \
    vec4 sum##r = vec4(0.0f);                                                                                  \
    const int y##r = y + int(p.shape.pad_top), x##r = x + int(p.shape.pad_left);                               \
    const int at##r = ((min(image, images - 1) * out_height + y##r) * out_width + x##r) * channels;            \
    x += 1;                                                                                                    \
    y += x == width ? 1 : 0;                                                                                   \
    x = x == width ? 0 : x;                                                                                    \
    image += y == height ? 1 : 0;                                                                              \
    y = y == height ? 0 : y;
    ROWS(INIT)

#define DECLARE(s) vec4 b##s;
    STEPS(DECLARE)
    if (TAPS) {
        for (int ky = 0; ky < kernel_height; ++ky) {
            for (int kx = 0; kx < kernel_width; ++kx) {
                const int offset = -(ky * out_width + kx) * channels;
                const int weights = (ky * kernel_width + kx) * columns * channels;
#define TAP(r)                                                                                                 \
    const bool inside##r = uint(y##r - ky) < uint(out_height) && uint(x##r - kx) < uint(out_width);            \
    int from##r = (inside##r ? at##r + offset : 0) + min(lane, CHUNK - 1);
                ROWS(TAP)
                const int w0 = (weights + c0) / 4, w1 = (weights + c1) / 4;
                const int w2 = (weights + c2) / 4, w3 = (weights + c3) / 4;
                for (int c = 0; c < channels; c += CHUNK) {
                    // A vec4 of weights is four steps of one column: transposed
#define LOAD_IN_TAP(quad, s0, s1, s2, s3)                                                                      \
    {                                                                                                          \
        const vec4 e = p.b_wide.at[w0 + c / 4 + quad], f = p.b_wide.at[w1 + c / 4 + quad];                     \
        const vec4 g = p.b_wide.at[w2 + c / 4 + quad], h = p.b_wide.at[w3 + c / 4 + quad];                     \
        b##s0 = vec4(e.x, f.x, g.x, h.x);                                                                      \
        b##s1 = vec4(e.y, f.y, g.y, h.y);                                                                      \
        b##s2 = vec4(e.z, f.z, g.z, h.z);                                                                      \
        b##s3 = vec4(e.w, f.w, g.w, h.w);                                                                      \
    }
                    LOAD_IN_TAP(0, 0, 1, 2, 3)
#if CHUNK == 8
                    LOAD_IN_TAP(1, 4, 5, 6, 7)
#endif
#define ROW_IN_TAP(r)                                                                                          \
    {                                                                                                          \
        float a = p.a.at[from##r];                                                                             \
        from##r += CHUNK;                                                                                      \
        a = inside##r ? a : 0.0f;                                                                              \
        MACS(r, a)                                                                                             \
    }
                    ROWS(ROW_IN_TAP)
                }
            }
        }
    } else {
        int weight_tap = 0, channel = 0; // of the next step, equal in all lanes
        for (int first = 0; first < depth; first += CHUNK) {
            const int k = min(first + lane, depth - 1);
            const int tap = k / channels;
            const int tap_y = tap / kernel_width;
            const int kx = tap - tap_y * kernel_width;
            const int offset = k - tap * channels - (tap_y * out_width + kx) * channels;
            const int ky = first + lane < depth ? tap_y : NOWHERE;
#define LOAD(s)                                                                                                \
    {                                                                                                          \
        const int q = first + s < depth ? weight_tap * columns * channels + channel : 0;                       \
        b##s = vec4(p.b.at[q + c0], p.b.at[q + c1], p.b.at[q + c2], p.b.at[q + c3]);                           \
        channel += 1;                                                                                          \
        weight_tap += channel == channels ? 1 : 0;                                                             \
        channel = channel == channels ? 0 : channel;                                                           \
    }
            STEPS(LOAD)
#define ROW(r)                                                                                                 \
    {                                                                                                          \
        const bool inside = uint(y##r - ky) < uint(out_height) && uint(x##r - kx) < uint(out_width);           \
        float a = p.a.at[inside ? at##r + offset : 0];                                                         \
        a = inside ? a : 0.0f;                                                                                 \
        MACS(r, a)                                                                                             \
    }
            ROWS(ROW)
        }
    }

    const bool relu = p.relu != 0u;
#define STORE_ONE(lane_column, value)                                                                          \
    if (column + lane_column < columns)                                                                        \
        p.c.at[to + lane_column] = !relu || p.extra.at[to + lane_column] > 0.0f ? (value) : 0.0f;
#define STORE(r)                                                                                               \
    if (row + r < rows) {                                                                                      \
        const int to = (row + r) * columns + column;                                                           \
        STORE_ONE(0, sum##r.x) STORE_ONE(1, sum##r.y) STORE_ONE(2, sum##r.z) STORE_ONE(3, sum##r.w)            \
    }
    ROWS(STORE)
}
