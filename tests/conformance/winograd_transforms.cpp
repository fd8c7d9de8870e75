// The transforms of Winograd's convolutions on GPUs.
#include "tests/conformance/harness.h"
#include "tests/conformance/reference_winograd.h"

#include <algorithm>

namespace towers {
namespace {

using namespace test;
using reference::transform_square;
using reference::Values;

/// F(m x m, r x r)
struct Size {
    std::uint32_t m, r;
    std::uint32_t points() const { return m + r - 1; }
};
constexpr Size sizes[] = {{2, 3}, {4, 3}, {2, 5}, {4, 5}};

/// Tiles of images of some size, with odd borders
std::vector<WinogradTiles> tiles_of(const Size& size) {
    const std::uint32_t m = size.m, points = size.points();
    return {{.batch = 1,
             .height = 1,
             .width = 1,
             .channels = 1,
             .down = 1,
             .across = 1,
             .step = m,
             .top = 1,
             .left = 1,
             .points = points},
            {.batch = 3,
             .height = 9,
             .width = 7,
             .channels = 13,
             .down = 3,
             .across = 2,
             .step = m,
             .top = 2,
             .left = 0,
             .points = points},
            {.batch = 2,
             .height = 6,
             .width = 11,
             .channels = 64,
             .down = 2,
             .across = 3,
             .step = m,
             .top = std::uint32_t(-2),
             .left = std::uint32_t(-1),
             .points = points}};
}

std::size_t pixels_of(const WinogradTiles& tiles) {
    return std::size_t(tiles.batch) * tiles.height * tiles.width * tiles.channels;
}

/// Calls visit(tile, y, x, pixel) for each pixel of the tiles' squares that lies in an image; `pixel`: its
/// first channel's index.
template<class Visit>
void for_each_pixel(const WinogradTiles& tiles, std::uint32_t side, Visit visit) {
    for (std::uint32_t tile = 0; tile < WINOGRAD_TILES(tiles); ++tile) {
        const std::uint32_t image = tile / (tiles.down * tiles.across);
        for (std::uint32_t y = 0; y < side; ++y)
            for (std::uint32_t x = 0; x < side; ++x) {
                const std::int64_t row =
                    std::int64_t(tile / tiles.across % tiles.down * tiles.step) + y - std::int32_t(tiles.top);
                const std::int64_t column =
                    std::int64_t(tile % tiles.across * tiles.step) + x - std::int32_t(tiles.left);
                if (row < 0 || column < 0 || row >= tiles.height || column >= tiles.width) continue;
                visit(tile, y, x,
                      std::size_t((image * tiles.height + row) * tiles.width + column) * tiles.channels);
            }
    }
}

/// v[tiles, points, points, channels] of images by a matrix [points, side]
Values transformed(const WinogradTiles& tiles, const reference::Matrix& matrix,
                   const std::vector<float>& images) {
    const std::size_t side = matrix.columns, squares = matrix.rows * matrix.rows;
    Values v(WINOGRAD_TILES(tiles) * squares * tiles.channels);
    for (std::size_t c = 0; c < tiles.channels; ++c) {
        std::vector<Values> windows(WINOGRAD_TILES(tiles), Values(side * side));
        for_each_pixel(tiles, std::uint32_t(side),
                       [&](std::size_t tile, std::size_t y, std::size_t x, std::size_t pixel) {
                           windows[tile][y * side + x] = images[pixel + c];
                       });
        for (std::size_t tile = 0; tile < windows.size(); ++tile) {
            const Values points = transform_square(matrix, windows[tile]);
            for (std::size_t i = 0; i < squares; ++i)
                v[(tile * squares + i) * tiles.channels + c] = points[i];
        }
    }
    return v;
}

std::string text(const Size& size) {
    return "F(" + std::to_string(size.m) + ", " + std::to_string(size.r) + ")";
}

} // namespace

KERNEL_TEST(winograd_images,
            "Winograd's convolutions see the pixels of all tiles, and zeros around the image") {
    for (const Size& size : sizes)
        for (const WinogradTiles& each : tiles_of(size)) {
            INFO(text(size), ", ", each.channels, " channels");
            const std::vector<float> images = random_floats(pixels_of(each), 1);
            const Values expected =
                transformed(each, reference::winograd_image_matrix(size.points()), images);
            on_every_device([&](Device& device) {
                Trial trial(device);
                const Tensor x = trial.input(images), v = trial.output(expected.size());
                trial.run(launch(kernels::winograd_images, {x, v, each}));
                check_near("v", trial.floats(v), expected);
            });
        }
}

KERNEL_TEST(winograd_gradients,
            "the filters of Winograd's convolutions learn from the gradient of every pixel") {
    for (const Size& size : sizes)
        for (const WinogradTiles& each : tiles_of(size)) {
            INFO(text(size), ", ", each.channels, " channels");
            const std::vector<float> gradients = random_floats(pixels_of(each), 1);
            const Values expected =
                transformed(each, reference::winograd_weight_matrix(size.points(), size.m), gradients);
            on_every_device([&](Device& device) {
                Trial trial(device);
                const Tensor dy = trial.input(gradients), v = trial.output(expected.size());
                trial.run(launch(kernels::winograd_gradients, {dy, v, each}));
                check_near("v", trial.floats(v), expected);
            });
        }
}

KERNEL_TEST(winograd_weights,
            "Winograd's convolutions use the filters as they are, and turned for gradients") {
    for (const Size& size : sizes)
        for (const auto& [in, out] : {std::pair(1u, 1u), {13u, 3u}, {8u, 64u}}) {
            INFO(text(size), ", ", in, " to ", out, " channels");
            const std::size_t taps = std::size_t(size.r) * size.r, points = size.points() * size.points();
            const std::vector<float> w = random_floats(taps * in * out, 1);
            for (const bool mirrored : {false, true}) {
                const std::size_t rows = mirrored ? out : in, columns = mirrored ? in : out;
                Values expected(rows * points * columns);
                for (std::size_t row = 0; row < rows; ++row)
                    for (std::size_t column = 0; column < columns; ++column) {
                        Values window(taps);
                        for (std::size_t tap = 0; tap < taps; ++tap)
                            window[tap] = mirrored ? w[((taps - 1 - tap) * in + column) * out + row]
                                                   : w[(tap * in + row) * out + column];
                        const Values u = transform_square(
                            reference::winograd_weight_matrix(size.points(), size.r), window);
                        for (std::size_t i = 0; i < points; ++i)
                            expected[(row * points + i) * columns + column] = u[i];
                    }
                on_every_device([&](Device& device) {
                    Trial trial(device);
                    const Tensor weights = trial.input(w), u = trial.output(expected.size());
                    trial.run(launch(kernels::winograd_weights,
                                     {weights, u, size.points(), size.r, in, out, mirrored}));
                    check_near("u", trial.floats(u), expected);
                });
            }
        }
}

KERNEL_TEST(winograd_results, "every pixel that Winograd's convolutions compute is written once, finished") {
    for (const Size& size : sizes)
        // Many images of one pixel: one alone may be a sum of 49 products that cancel each other out.
        for (const auto& [batch, height, width, channels] :
             {std::array{32u, 1u, 1u, 1u}, {2u, 9u, 7u, 13u}, {2u, 6u, 11u, 64u}}) {
            const WinogradTiles all{.batch = batch,
                                    .height = height,
                                    .width = width,
                                    .channels = channels,
                                    .down = (height + size.m - 1) / size.m,
                                    .across = (width + size.m - 1) / size.m,
                                    .step = size.m,
                                    .top = 0,
                                    .left = 0,
                                    .points = size.points()};
            INFO(text(size), ", ", height, "x", width, "x", channels);
            const std::size_t squares = size.points() * size.points();
            const std::vector<float> products = random_floats(WINOGRAD_TILES(all) * squares * channels, 1);
            const std::vector<float> b = random_floats(channels, 2), mask = random_floats(pixels_of(all), 3);
            Values plain(pixels_of(all)), active(plain.size()), masked(plain.size());
            for (std::size_t c = 0; c < channels; ++c) {
                std::vector<Values> results;
                for (std::size_t tile = 0; tile < WINOGRAD_TILES(all); ++tile) {
                    Values points(squares);
                    for (std::size_t i = 0; i < squares; ++i)
                        points[i] = products[(tile * squares + i) * channels + c];
                    results.push_back(
                        transform_square(reference::winograd_result_matrix(size.points(), size.m), points));
                }
                for_each_pixel(all, size.m,
                               [&](std::size_t tile, std::size_t y, std::size_t x, std::size_t pixel) {
                                   plain[pixel + c] = results[tile][y * size.m + x];
                               });
            }
            for (std::size_t i = 0; i < plain.size(); ++i) {
                active[i] = std::max(0.0, plain[i] + double(b[i % channels]));
                masked[i] = mask[i] > 0 ? plain[i] : 0;
            }
            on_every_device([&](Device& device) {
                const auto finished = [&](WinogradResultsParams p) {
                    Trial trial(device);
                    p.products = trial.input(products);
                    if (p.bias != 0) p.b = trial.input(b);
                    if (p.masked != 0) p.mask = trial.input(mask);
                    const Tensor y = trial.output(plain.size());
                    p.y = y;
                    p.tiles = all;
                    trial.run(launch(kernels::winograd_results, p));
                    return trial.floats(y);
                };
                check_near("y", finished({}), plain);
                check_near("y after ReLU", finished({.bias = 1, .relu = 1}), active);
                check_near("dx", finished({.masked = 1}), masked);
            });
        }
}

KERNEL_TEST(winograd_weight_gradients, "the gradient of each filter of Winograd's convolutions is its own") {
    for (const Size& size : sizes)
        for (const auto& [in, out] : {std::pair(1u, 1u), {13u, 3u}, {8u, 64u}}) {
            INFO(text(size), ", ", in, " to ", out, " channels");
            const std::size_t taps = std::size_t(size.r) * size.r, squares = size.points() * size.points();
            const std::vector<float> products = random_floats(in * squares * out, 1);
            Values expected(taps * in * out);
            for (std::size_t row = 0; row < in; ++row)
                for (std::size_t column = 0; column < out; ++column) {
                    Values points(squares);
                    for (std::size_t i = 0; i < squares; ++i)
                        points[i] = products[(row * squares + i) * out + column];
                    const Values dw =
                        transform_square(reference::winograd_result_matrix(size.points(), size.r), points);
                    for (std::size_t tap = 0; tap < taps; ++tap)
                        expected[(tap * in + row) * out + column] = dw[tap];
                }
            on_every_device([&](Device& device) {
                Trial trial(device);
                const Tensor sums = trial.input(products), dw = trial.output(expected.size());
                trial.run(
                    launch(kernels::winograd_weight_gradients, {sums, dw, size.points(), size.r, in, out}));
                check_near("dw", trial.floats(dw), expected);
            });
        }
}

TEST_CASE("the reference of Winograd's transforms multiplies polynomials") {
    for (const Size& size : sizes) {
        INFO(text(size));
        const std::vector<double> w = widen(random_floats(size.r * size.r, 1)),
                                  x = widen(random_floats(size.points() * size.points(), 2));
        Values product = transform_square(reference::winograd_image_matrix(size.points()), x);
        const Values u = transform_square(reference::winograd_weight_matrix(size.points(), size.r), w);
        for (std::size_t i = 0; i < product.size(); ++i) product[i] *= u[i];
        Values direct(size.m * size.m);
        for (std::size_t y = 0; y < size.m; ++y)
            for (std::size_t z = 0; z < size.m; ++z)
                for (std::size_t i = 0; i < size.r; ++i)
                    for (std::size_t j = 0; j < size.r; ++j)
                        direct[y * size.m + z] += x[(y + i) * size.points() + z + j] * w[i * size.r + j];
        CHECK(reference::relative_error(
                  transform_square(reference::winograd_result_matrix(size.points(), size.m), product),
                  direct) < 1e-12);
    }
}

} // namespace towers
