// The passes of F(m x m, r x r) on blocks of tiles; see winograd.h. A file that defines winograd_LEVEL()
// includes this and is compiled for that processor level.
#pragma once

#include "backends/cpu/winograd_products.h"
#include "backends/cpu/winograd_transforms.h"

namespace towers {
namespace {

template<size_t m, size_t r>
struct Winograd {
    static constexpr size_t alpha = m + r - 1, points = alpha * alpha;
    static constexpr size_t weight_rows = 16; // a line of the cache, for weights that change places

    /// V or M of a block of tiles: a point's plane, and all points of a chunk or panel.
    struct Blocks {
        float* at;
        size_t plane, stride;
        Blocks(float* memory, size_t rows, size_t width)
            : at(memory), plane((rows + 1) * width), stride(points * plane) {}
        Blocks panel(size_t number) const {
            Blocks one = *this;
            one.at += number * stride;
            return one;
        }
    };

    static size_t tiles_of(const WinogradShape& s) {
        return s.batch * ((s.out_height + m - 1) / m) * ((s.out_width + m - 1) / m);
    }
    static size_t chunks_of(const WinogradShape& s) { return (s.in_channels + s.chunk - 1) / s.chunk; }
    /// Output channels of a panel
    static size_t columns_of(const WinogradShape& s, size_t number) {
        return least(s.out_channels - number * s.panel, s.panel);
    }

    struct Tile {
        size_t image;
        std::ptrdiff_t y, x; ///< its first result
    };
    static Tile tile_of(const WinogradShape& s, size_t number) {
        const size_t across = (s.out_width + m - 1) / m, down = (s.out_height + m - 1) / m;
        return {number / (across * down), std::ptrdiff_t(number / across % down * m),
                std::ptrdiff_t(number % across * m)};
    }

    /// Points to the pixels of a square; those outside the image get `outside`.
    template<size_t side, class Float>
    static void find_pixels(Float* images, size_t image, size_t height, size_t width, size_t channels,
                            std::ptrdiff_t top, std::ptrdiff_t left, Float* outside,
                            Float* (&at)[side * side]) {
        for (size_t i = 0; i < side; ++i)
            for (size_t j = 0; j < side; ++j) {
                const size_t y = size_t(top + std::ptrdiff_t(i)), x = size_t(left + std::ptrdiff_t(j));
                at[i * side + j] = y < height && x < width // below zero is far above
                                       ? images + ((image * height + y) * width + x) * channels
                                       : outside;
            }
    }

    static void transform_input_tile(const WinogradShape& s, const float* x, const Tile& tile,
                                     const float* zeros, size_t row, const Blocks& v) {
        const float* pixels[points];
        find_pixels<alpha>(x, tile.image, s.in_height, s.in_width, s.in_channels, tile.y - s.pad_top,
                           tile.x - s.pad_left, zeros, pixels);
        float* to = v.at + row * s.chunk;
        for (size_t c = 0, in_chunk = 0; c < s.in_channels; c += lanes, in_chunk += lanes) {
            if (in_chunk == s.chunk) {
                in_chunk = 0;
                to += v.stride;
            }
            const bool whole = c + lanes <= s.in_channels;
            Vector half[points];
            for (size_t j = 0; j < alpha; ++j) {
                Vector column[alpha];
#pragma GCC unroll 8
                for (size_t i = 0; i < alpha; ++i)
                    column[i] = whole ? load(pixels[i * alpha + j] + c)
                                      : load_first(pixels[i * alpha + j] + c, s.in_channels - c);
                transform_input<alpha, 1, alpha>(column, half + j);
            }
            for (size_t i = 0; i < alpha; ++i) {
                Vector line[alpha];
                transform_input<alpha, 1, 1>(half + i * alpha, line);
#pragma GCC unroll 8
                for (size_t j = 0; j < alpha; ++j) store(to + in_chunk + (i * alpha + j) * v.plane, line[j]);
            }
        }
    }

    static void transform_input_tiles(const WinogradShape& s, const float* x, WinogradRange tiles,
                                      const float* zeros, const Blocks& v) {
        for (size_t tile = tiles.first; tile < tiles.end; ++tile)
            transform_input_tile(s, x, tile_of(s, tile), zeros, tile - tiles.first, v);
    }

    static void weights(const WinogradWeights& p, WinogradRange rows, size_t number, float* u, size_t plane) {
        constexpr size_t taps = r * r;
        const size_t all_columns = p.mirrored ? p.in : p.out;
        const size_t first = number * p.panel, columns = least(all_columns - first, p.panel);
        float g[taps * weight_rows * panel] = {};
        const auto at = [&](size_t tap, size_t row) {
            return g + (tap * weight_rows + row - rows.first) * panel;
        };
        for (size_t tap = 0; tap < taps; ++tap) {
            if (p.mirrored)
                for (size_t column = 0; column < columns; ++column) {
                    const float* const w = p.w + ((taps - 1 - tap) * p.in + first + column) * p.out;
                    for (size_t row = rows.first; row < rows.end; ++row) at(tap, row)[column] = w[row];
                }
            else
                for (size_t row = rows.first; row < rows.end; ++row) {
                    const float* const w = p.w + (tap * p.in + row) * p.out + first;
                    for (size_t column = 0; column < columns; ++column) at(tap, row)[column] = w[column];
                }
        }
        for (size_t column = 0; column < p.panel; column += lanes)
            for (size_t row = rows.first; row < rows.end; ++row) {
                Vector half[alpha * r];
                for (size_t j = 0; j < r; ++j) {
                    Vector of_column[r];
#pragma GCC unroll 8
                    for (size_t i = 0; i < r; ++i) of_column[i] = load(at(i * r + j, row) + column);
                    transform_weights<alpha, r, 1, r>(of_column, half + j);
                }
                for (size_t i = 0; i < alpha; ++i) {
                    Vector line[alpha];
                    transform_weights<alpha, r, 1, 1>(half + i * r, line);
#pragma GCC unroll 8
                    for (size_t j = 0; j < alpha; ++j)
                        store(u + (i * alpha + j) * plane + (row - rows.first) * p.panel + column, line[j]);
                }
            }
    }

    /// m x m results of one tile and vector of channels
    static void finish_results(const WinogradForward& p, float* const (&results)[m * m], size_t k,
                               const Vector* values) {
        const size_t channels = p.shape.out_channels, count = least(channels - k, lanes);
        const bool whole = count == lanes;
        const Vector bias = p.bias == nullptr ? all(0.0f)
                            : whole           ? load(p.bias + k)
                                              : load_first(p.bias + k, count);
        for (size_t i = 0; i < m * m; ++i) {
            if (results[i] == nullptr) continue;
            float* const to = results[i] + k;
            const auto at = [&](const float* from) { return whole ? load(from) : load_first(from, count); };
            Vector value = values[i] + bias;
            if (p.relu) value = relu(value);
            if (p.mask != nullptr) value = where_positive(at(p.mask + (to - p.y)), value);
            if (whole)
                store(to, value);
            else
                store_first(to, value, count);
        }
    }

    static void transform_output_vector(const WinogradForward& p, const float* from, size_t plane,
                                        float* const (&results)[m * m], size_t k) {
        Vector half[m * alpha], values[m * m];
        for (size_t j = 0; j < alpha; ++j) {
            Vector column[alpha];
#pragma GCC unroll 8
            for (size_t i = 0; i < alpha; ++i) column[i] = load(from + (i * alpha + j) * plane);
            transform_output<alpha, m, 1, alpha>(column, half + j);
        }
        for (size_t i = 0; i < m; ++i) transform_output<alpha, m, 1, 1>(half + i * alpha, values + i * m);
        finish_results(p, results, k, values);
    }

    static void transform_outputs(const WinogradForward& p, WinogradRange tiles, WinogradRange panels,
                                  const Blocks& products) {
        const WinogradShape& s = p.shape;
        for (size_t number = tiles.first; number < tiles.end; ++number) {
            const Tile tile = tile_of(s, number);
            float* results[m * m];
            find_pixels<m>(p.y, tile.image, s.out_height, s.out_width, s.out_channels, tile.y, tile.x,
                           static_cast<float*>(nullptr), results);
            for (size_t index = panels.first; index < panels.end; ++index) {
                const float* const row =
                    products.at + (index - panels.first) * products.stride + (number - tiles.first) * s.panel;
                const size_t first = index * s.panel, columns = columns_of(s, index);
                for (size_t column = 0; column < columns; column += lanes)
                    transform_output_vector(p, row + column, products.plane, results, first + column);
            }
        }
    }

    static void input(const WinogradShape& s, const float* x, WinogradRange tiles, const float* zeros,
                      float* v) {
        const Blocks all(v, tiles_of(s), s.chunk);
        for (size_t tile = tiles.first; tile < tiles.end; ++tile)
            transform_input_tile(s, x, tile_of(s, tile), zeros, tile, all);
    }

    static void panel_of_results(const WinogradForward& p, const WinogradWeights& w, float* v_of_all,
                                 WinogradRange tiles, size_t number, float* scratch) {
        const WinogradShape& s = p.shape;
        const Blocks v(v_of_all, tiles_of(s), s.chunk), products(scratch, tiles.size(), s.panel);
        const Blocks u(scratch + products.stride, s.chunk, s.panel);
        for (size_t first = 0; first < s.in_channels; first += s.chunk) {
            const size_t end = least(first + s.chunk, s.in_channels);
            for (size_t row = first; row < end; row += weight_rows)
                weights(w, {row, least(row + weight_rows, end)}, number, u.at + (row - first) * s.panel,
                        u.plane);
            for (size_t point = 0; point < points; ++point)
                multiply_input(s, v.at + first / s.chunk * v.stride + point * v.plane + tiles.first * s.chunk,
                               v.stride, u.at + point * u.plane, tiles.size(), columns_of(s, number),
                               end - first, first != 0, products.at + point * products.plane);
        }
        transform_outputs(p, tiles, {number, number + 1}, products);
    }

    static void forward(const WinogradForward& p, WinogradRange tiles, WinogradRange panels, float* scratch) {
        const WinogradShape& s = p.shape;
        const Blocks v(scratch, tiles.size(), s.chunk);
        const Blocks products(v.at + chunks_of(s) * v.stride, tiles.size(), s.panel);
        float* const zeros = products.at + panels.size() * products.stride;
        for (size_t c = 0; c < s.in_channels; ++c) zeros[c] = 0.0f;

        transform_input_tiles(s, p.x, tiles, zeros, v);
        const size_t u_plane = (s.in_channels + 1) * s.panel;
        for (size_t point = 0; point < points; ++point)
            for (size_t number = panels.first; number < panels.end; ++number)
                multiply_input(s, v.at + point * v.plane, v.stride, p.u + (number * points + point) * u_plane,
                               tiles.size(), columns_of(s, number), s.in_channels, false,
                               products.at + (number - panels.first) * products.stride +
                                   point * products.plane);
        transform_outputs(p, tiles, panels, products);
    }

    /// dy of a tile and one panel as the window of the gradient, and its sum over the tile's pixels, added to
    /// a panel of sums
    static void transform_dy_tile(const WinogradGradient& p, const Tile& tile, size_t number,
                                  const float* zeros, float* row, size_t plane, float* bias_sums) {
        const WinogradShape& s = p.shape;
        const float* pixels[m * m];
        find_pixels<m>(p.dy, tile.image, s.out_height, s.out_width, s.out_channels, tile.y, tile.x, zeros,
                       pixels);
        const size_t columns = columns_of(s, number);
        for (size_t column = 0; column < columns; column += lanes) {
            const size_t k = number * s.panel + column;
            const bool whole = k + lanes <= s.out_channels;
            Vector half[alpha * m], sum = all(0.0f);
            for (size_t j = 0; j < m; ++j) {
                Vector values[m];
#pragma GCC unroll 4
                for (size_t i = 0; i < m; ++i) {
                    values[i] = whole ? load(pixels[i * m + j] + k)
                                      : load_first(pixels[i * m + j] + k, s.out_channels - k);
                    sum = sum + values[i];
                }
                transform_weights<alpha, m, 1, m>(values, half + j);
            }
            store(bias_sums + column, load(bias_sums + column) + sum);
            for (size_t i = 0; i < alpha; ++i) {
                Vector line[alpha];
                transform_weights<alpha, m, 1, 1>(half + i * m, line);
#pragma GCC unroll 8
                for (size_t j = 0; j < alpha; ++j) store(row + column + (i * alpha + j) * plane, line[j]);
            }
        }
    }

    /// dy of some tiles, and its sums, which are added to a panel of sums
    static void transform_dy_tiles(const WinogradGradient& p, WinogradRange tiles, size_t number,
                                   const float* zeros, const Blocks& to, float* bias_sums) {
        for (size_t tile = tiles.first; tile < tiles.end; ++tile)
            transform_dy_tile(p, tile_of(p.shape, tile), number, zeros,
                              to.at + (tile - tiles.first) * p.shape.panel, to.plane, bias_sums);
    }

    static void gradient(const WinogradGradient& p, WinogradRange tiles, WinogradRange panels,
                         float* scratch) {
        const WinogradShape& s = p.shape;
        const size_t d_plane = (s.in_channels + 1) * s.panel;
        for (size_t first = tiles.first; first < tiles.end; first += p.block) {
            const WinogradRange block{first, least(first + p.block, tiles.end)};
            const Blocks v(scratch, block.size(), s.chunk);
            const Blocks dy(v.at + chunks_of(s) * v.stride, block.size(), s.panel);
            float* const zeros = dy.at + panels.size() * dy.stride;
            float* const bias_sums =
                zeros + (s.in_channels > s.out_channels ? s.in_channels : s.out_channels);
            for (float* z = zeros; z < bias_sums + panels.size() * s.panel; ++z) *z = 0.0f;

            transform_input_tiles(s, p.x, block, zeros, v);
            for (size_t number = panels.first; number < panels.end; ++number) {
                const size_t index = number - panels.first;
                transform_dy_tiles(p, block, number, zeros, dy.panel(index), bias_sums + index * s.panel);
            }
            for (size_t point = 0; point < points; ++point)
                for (size_t number = panels.first; number < panels.end; ++number)
                    for (size_t c = 0; c < s.in_channels; c += s.chunk)
                        multiply_gradient(s, v.at + c / s.chunk * v.stride + point * v.plane,
                                          dy.at + (number - panels.first) * dy.stride + point * dy.plane,
                                          least(s.in_channels - c, s.chunk), columns_of(s, number),
                                          block.size(), true,
                                          p.sums + (number * points + point) * d_plane + c * s.panel);
            if (p.bias_sums != nullptr)
                for (size_t k = panels.first * s.panel; k < least(panels.end * s.panel, s.out_channels); ++k)
                    p.bias_sums[k] += bias_sums[k - panels.first * s.panel];
        }
    }

    static void panel_of_dy(const WinogradGradient& p, size_t number, const float* zeros, float* dy_of_all,
                            float* bias_sums) {
        const WinogradShape& s = p.shape;
        float sums[panel] = {};
        transform_dy_tiles(p, {0, tiles_of(s)}, number, zeros,
                           Blocks(dy_of_all, tiles_of(s), s.panel).panel(number), sums);
        if (bias_sums == nullptr) return;
        for (size_t k = 0; k < columns_of(s, number); ++k) bias_sums[number * s.panel + k] = sums[k];
    }

    static void piece_of_gradient(const WinogradShape& s, float* v_of_all, float* dy_of_all, size_t chunk,
                                  size_t number, float* dw, float* scratch) {
        const size_t tiles = tiles_of(s), first = chunk * s.chunk,
                     rows = least(s.in_channels - first, s.chunk);
        const Blocks v(v_of_all, tiles, s.chunk), dy(dy_of_all, tiles, s.panel), d(scratch, s.chunk, s.panel);
        for (size_t point = 0; point < points; ++point)
            multiply_gradient(s, v.at + chunk * v.stride + point * v.plane,
                              dy.at + number * dy.stride + point * dy.plane, rows, columns_of(s, number),
                              tiles, false, d.at + point * d.plane);
        finish(s, {.first = d.at, .plane = d.plane, .count = 1, .stride = 0}, {first, first + rows}, number,
               dw);
    }

    static void finish(const WinogradShape& s, const WinogradSums& sums, WinogradRange rows, size_t number,
                       float* dw) {
        const size_t columns = columns_of(s, number);
        for (size_t row = rows.first; row < rows.end; ++row)
            for (size_t column = 0; column < columns; column += lanes) {
                const float* const from = sums.first + (row - rows.first) * s.panel + column;
                Vector half[r * alpha];
                for (size_t j = 0; j < alpha; ++j) {
                    Vector of_column[alpha];
                    for (size_t i = 0; i < alpha; ++i) {
                        const float* const point = from + (i * alpha + j) * sums.plane;
                        of_column[i] = load(point);
                        for (size_t other = 1; other < sums.count; ++other)
                            of_column[i] = of_column[i] + load(point + other * sums.stride);
                    }
                    transform_output<alpha, r, 1, alpha>(of_column, half + j);
                }
                for (size_t i = 0; i < r; ++i) {
                    Vector line[r];
                    transform_output<alpha, r, 1, 1>(half + i * alpha, line);
                    for (size_t j = 0; j < r; ++j) {
                        float* const to = dw + ((i * r + j) * s.in_channels + row) * s.out_channels +
                                          number * s.panel + column;
                        store_first(to, line[j], least(columns - column, lanes));
                    }
                }
            }
    }

    static constexpr WinogradCode code{.m = m,
                                       .r = r,
                                       .points = points,
                                       .lanes = lanes,
                                       .widest_panel = panel,
                                       .widest_chunk = widest_chunk,
                                       .weight_rows = weight_rows,
                                       .weights = weights,
                                       .forward = forward,
                                       .gradient = gradient,
                                       .finish = finish,
                                       .input = input,
                                       .panel_of_results = panel_of_results,
                                       .panel_of_dy = panel_of_dy,
                                       .piece_of_gradient = piece_of_gradient};
};

inline const WinogradCode* winograd_code(size_t m, size_t r) {
    if (m == 2 && r == 3) return &Winograd<2, 3>::code;
    if (m == 4 && r == 3) return &Winograd<4, 3>::code;
    if (m == 2 && r == 5) return &Winograd<2, 5>::code;
    if (m == 4 && r == 5) return &Winograd<4, 5>::code;
    return nullptr;
}

} // namespace
} // namespace towers
