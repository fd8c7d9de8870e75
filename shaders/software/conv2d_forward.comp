#include "software/conv2d.h"

// a = x, b = w, extra = the bias, c = y. Workgroups: x tiles of output pixels, y tiles of output channels.
void main() {
    const int lane = int(gl_SubgroupInvocationID);
    const int height = int(p.shape.in_height), width = int(p.shape.in_width), channels = int(p.shape.in_channels);
    const int out_height = int(p.shape.out_height), out_width = int(p.shape.out_width);
    const int kernel_height = int(p.shape.kernel_height), kernel_width = int(p.shape.kernel_width);
    const int images = int(p.shape.batch), columns = int(p.shape.out_channels);
    const int rows = images * out_height * out_width, depth = kernel_height * kernel_width * channels;
    const int row = int(gl_WorkGroupID.x) * TILE_ROWS;
    const int column = int(gl_WorkGroupID.y) * 4 * int(gl_SubgroupSize) + 4 * lane;
    const int c0 = min(column, columns - 1), c1 = min(column + 1, columns - 1);
    const int c2 = min(column + 2, columns - 1), c3 = min(column + 3, columns - 1);

    int y = row / out_width / out_height, x = row % out_width;
    int image = y;
    y = row / out_width % out_height;
    // For each row: its sum, its window's corner, and the corner's offset in x. Coordinates advance by steps,
    // because a division is repeated for every lane.
#define INIT(r)                                                                                                \
    vec4 sum##r = vec4(0.0f);                                                                                  \
    const int y##r = y - int(p.shape.pad_top), x##r = x - int(p.shape.pad_left);                               \
    const int at##r = ((min(image, images - 1) * height + y##r) * width + x##r) * channels;                    \
    x += 1;                                                                                                    \
    y += x == out_width ? 1 : 0;                                                                               \
    x = x == out_width ? 0 : x;                                                                                \
    image += y == out_height ? 1 : 0;                                                                          \
    y = y == out_height ? 0 : y;
    ROWS(INIT)

#define DECLARE(s) vec4 b##s;
    STEPS(DECLARE)
    if (TAPS) {
        int k = 0;
        for (int ky = 0; ky < kernel_height; ++ky) {
            for (int kx = 0; kx < kernel_width; ++kx) {
                const int offset = (ky * width + kx) * channels;
#define TAP(r)                                                                                                 \
    const bool inside##r = uint(y##r + ky) < uint(height) && uint(x##r + kx) < uint(width);                    \
    int from##r = (inside##r ? at##r + offset : 0) + min(lane, CHUNK - 1);
                ROWS(TAP)
                for (int c = 0; c < channels; c += CHUNK) {
#define LOAD_IN_TAP(s) FETCH(k + s, b##s)
                    STEPS(LOAD_IN_TAP)
#define ROW_IN_TAP(r)                                                                                          \
    {                                                                                                          \
        float a = p.a.at[from##r];                                                                             \
        from##r += CHUNK;                                                                                      \
        a = inside##r ? a : 0.0f;                                                                              \
        MACS(r, a)                                                                                             \
    }
                    ROWS(ROW_IN_TAP)
                    k += CHUNK;
                }
            }
        }
    } else {
        for (int first = 0; first < depth; first += CHUNK) {
            const int k = min(first + lane, depth - 1);
            const int tap = k / channels;
            const int tap_y = tap / kernel_width;
            const int kx = tap - tap_y * kernel_width;
            const int offset = (tap_y * width + kx) * channels + k - tap * channels;
            const int ky = first + lane < depth ? tap_y : NOWHERE;
#define LOAD(s) FETCH(min(first + s, depth - 1), b##s)
            STEPS(LOAD)
#define ROW(r)                                                                                                 \
    {                                                                                                          \
        const bool inside = uint(y##r + ky) < uint(height) && uint(x##r + kx) < uint(width);                   \
        float a = p.a.at[inside ? at##r + offset : 0];                                                         \
        a = inside ? a : 0.0f;                                                                                 \
        MACS(r, a)                                                                                             \
    }
            ROWS(ROW)
        }
    }

    vec4 bias = vec4(p.extra.at[c0], p.extra.at[c1], p.extra.at[c2], p.extra.at[c3]);
    if (p.bias == 0u) bias = vec4(0.0f); // without a bias, other memory was read
    const bool relu = p.relu != 0u;
    // Written so that a NaN stays a NaN.
#define STORE_ONE(lane_column, value)                                                                          \
    if (column + lane_column < columns) p.c.at[to + lane_column] = relu && (value) < 0.0f ? 0.0f : (value);
#define STORE(r)                                                                                               \
    if (row + r < rows) {                                                                                      \
        const vec4 value = sum##r + bias;                                                                      \
        const int to = (row + r) * columns + column;                                                           \
        STORE_ONE(0, value.x) STORE_ONE(1, value.y) STORE_ONE(2, value.z) STORE_ONE(3, value.w)                \
    }
    ROWS(STORE)
}
