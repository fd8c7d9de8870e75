#include "backends/cpu/long_sums.h"
#include "backends/cpu/overrides.h"
#include "backends/cpu/taps.h"

#include <algorithm>
#include <omp.h>
#include <type_traits>

// Convolutions of few pixels and many weights, and large dense layers. oneDNN's convolutions first bring the
// weights into a layout of their own, which pays only when many pixels then use them, and they multiply a
// small image's padding as well. Here each tap of the window is a product on the engine's layouts, over the
// pixels that the tap sees: HWIO weights are one row-major [I, O] matrix a tap. 512 to 512 channels, 3x3, on
// 32 images of 2x2 pixels, one thread with AVX-512: 2.3, 2.8 and 2.3 ms forward, data and weights, instead
// of 14.7, 6.9 and 16.2 by oneDNN 2.6.3.

namespace towers {
namespace {

using dnnl::memory;

/// On other processors oneDNN multiplies matrices with plain loops.
#if defined(__x86_64__)
constexpr bool fast_products = true;
#else
constexpr bool fast_products = false;
#endif
/// With at least this many weights per output pixel of the batch, the products are as fast or faster; with a
/// sixth of it they are up to 15 % slower.
constexpr std::size_t weights_per_pixel = 550;
/// Each tap is a separate product, which is too small with fewer channels: 64 to 64 channels, 5x5, are a
/// third slower.
constexpr std::size_t least_channels = 128;
/// Smaller dense layers would gain too, but less than a millisecond. They include the tutorial's, whose
/// numbers should stay comparable with earlier runs.
constexpr std::size_t least_dense_weights = std::size_t(1) << 20;
/// The gradient of the weights adds up its pixels one block after another; those of more would be off by
/// 1e-5.
constexpr std::size_t most_pixels = std::size_t(1) << 18;

std::size_t weights(const ConvShape& s) {
    return std::size_t(s.kernel_height) * s.kernel_width * s.in_channels * s.out_channels;
}

/// Range number `part` of `parts` about equal ranges of [0, size).
std::size_t begin_of(std::size_t part, std::size_t parts, std::size_t size) { return size * part / parts; }

/// How many images to process at once: about 512 pixels, so that the gathered data stays in the cache.
std::size_t images_at_once(std::size_t pixels, std::size_t batch) {
    return std::clamp<std::size_t>(512 / pixels, 1, batch);
}

/// Forward goes from input to output pixels, the data gradient the other way.
struct Pass {
    ConvShape shape;
    bool forward;
    const float *source, *weights;
    float* target;
    const float* bias; ///< added to the target, or null
    const float* mask; ///< the target is zeroed where this is not above zero, or null
    bool relu;         ///< whether to apply ReLU to the target
    std::vector<Tap> taps = taps_of(shape);

    std::size_t from = forward ? shape.in_channels : shape.out_channels;
    std::size_t to = forward ? shape.out_channels : shape.in_channels;
    const Pixels& seen(const Tap& tap) const { return forward ? tap.in : tap.out; }
    const Pixels& reached(const Tap& tap) const { return forward ? tap.out : tap.in; }

    /// How threads divide a target: ranges of channels and of images.
    std::size_t ranges = 1, blocks = 1;

    std::size_t most_pixels() const {
        std::size_t most = 1;
        for (const Tap& tap : taps) most = std::max(most, tap.out.count());
        return most;
    }
    std::size_t most_images() const { return (shape.batch + blocks - 1) / blocks; }
    /// Scratch floats per thread, for gathered rows and for products that are scattered.
    std::size_t scratch() const {
        std::size_t most = 1;
        for (const Tap& tap : taps)
            most = std::max(most, most_images() * tap.out.count() *
                                      ((seen(tap).all() ? 0 : from) + (reached(tap).all() ? 0 : to)));
        return most;
    }

    void share_out(std::size_t threads) {
        ranges = std::clamp<std::size_t>(to / 64, 1, threads);
        const std::size_t at_once = images_at_once(most_pixels(), shape.batch);
        blocks = std::max((shape.batch + at_once - 1) / at_once, (threads + ranges - 1) / ranges);
        blocks = std::min<std::size_t>(blocks, shape.batch);
    }

    void run(TapProducts& products, std::size_t range, std::size_t block, float* scratch) const {
        const std::size_t channel = begin_of(range, ranges, to);
        const std::size_t channels = begin_of(range + 1, ranges, to) - channel;
        const std::size_t image = begin_of(block, blocks, shape.batch);
        const std::size_t images = begin_of(block + 1, blocks, shape.batch) - image;
        const Matrix<float> out{target + channel, to};
        bool begun = false;
        // Starts with a tap that reaches every pixel, so that the target need not be zeroed.
        for (const bool everywhere : {true, false})
            for (const Tap& tap : taps) {
                if (reached(tap).all() != everywhere || tap.in.count() == 0) continue;
                if (!everywhere && !begun) zero(image, images, channels, out);
                const std::size_t rows = images * tap.in.count();
                const auto a = gathered(seen(tap), image, images, {source, from}, from, scratch);
                const Matrix<const float> b{weights + tap.weights +
                                                (forward ? channel : channel * shape.out_channels),
                                            shape.out_channels};
                const std::size_t first = image * reached(tap).in_image();
                const Matrix<float> c =
                    everywhere ? Matrix<float>{out.at + first * to, to}
                               : Matrix<float>{scratch + (seen(tap).all() ? 0 : rows * from), channels};
                products.multiply(false, !forward, rows, channels, from, a, b, everywhere && begun, c);
                if (!everywhere) add(reached(tap), image, images, channels, c.at, out);
                begun = true;
            }
        if (!begun) zero(image, images, channels, out);
        finish(image, images, channel, channels);
    }

private:
    template<class F>
    void for_each_row(std::size_t image, std::size_t images, F row) const {
        const std::size_t pixels = reached(taps.front()).in_image();
        for (std::size_t i = image * pixels; i < (image + images) * pixels; ++i) row(i * to);
    }

    void zero(std::size_t image, std::size_t images, std::size_t channels, Matrix<float> out) const {
        for_each_row(image, images, [&](std::size_t at) { std::fill_n(out.at + at, channels, 0.0f); });
    }

    static void add(const Pixels& pixels, std::size_t image, std::size_t images, std::size_t channels,
                    const float* products, Matrix<float> out) {
        pixels.for_each(image, images, [&](std::size_t pixel) {
            float* row = out.at + pixel * out.stride;
#pragma omp simd
            for (std::size_t c = 0; c < channels; ++c) row[c] += products[c];
            products += channels;
        });
    }

    void finish(std::size_t image, std::size_t images, std::size_t channel, std::size_t channels) const {
        if (bias == nullptr && mask == nullptr && !relu) return;
        for_each_row(image, images, [&](std::size_t at) {
            float* row = target + at + channel;
            if (bias != nullptr)
                for (std::size_t c = 0; c < channels; ++c) row[c] += bias[channel + c];
            if (relu) // keeps a NaN
                for (std::size_t c = 0; c < channels; ++c) row[c] = row[c] < 0.0f ? 0.0f : row[c];
            if (mask != nullptr) {
                const float* x = mask + at + channel;
                for (std::size_t c = 0; c < channels; ++c) row[c] = x[c] > 0.0f ? row[c] : 0.0f;
            }
        });
    }
};

Work ready(CpuContext& context, Pass pass) {
    pass.share_out(context.threads);
    const std::size_t scratch = pass.scratch();
    const Scratch memory = Scratch::of_floats(context, scratch * context.threads);
    return [&context, pass = std::move(pass), scratch, memory] {
        TapProducts products;
        float* const floats = memory.floats();
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(int(context.threads))
        for (std::size_t range = 0; range < pass.ranges; ++range)
            for (std::size_t block = 0; block < pass.blocks; ++block)
                pass.run(products, range, block, floats + std::size_t(omp_get_thread_num()) * scratch);
        products.require_success();
    };
}

/// Rows [channel, channel + channels) of a tap's matrix in dw = x^T dy.
void weights_gradient(TapProducts& products, const Conv2dBackwardWeightsParams& p, const Tap& tap,
                      std::size_t channel, std::size_t channels, float* scratch) {
    const std::size_t in = p.shape.in_channels, out = p.shape.out_channels;
    const Matrix<float> dw{p.dw.at + tap.weights + channel * out, out};
    if (tap.out.count() == 0) {
        std::fill_n(dw.at, channels * out, 0.0f);
        return;
    }
    const std::size_t at_once = images_at_once(tap.out.count(), p.shape.batch);
    for (std::size_t image = 0; image < p.shape.batch; image += at_once) {
        const std::size_t images = std::min<std::size_t>(at_once, p.shape.batch - image);
        const std::size_t rows = images * tap.out.count();
        const auto x = gathered(tap.in, image, images, {p.x.at + channel, in}, channels, scratch);
        const auto dy = gathered(tap.out, image, images, {p.dy.at, out}, out,
                                 scratch + (tap.in.all() ? 0 : rows * channels));
        products.multiply(true, false, channels, out, rows, x, dy, image != 0, dw);
    }
}

Work ready(CpuContext& context, const Conv2dBackwardWeightsParams& p) {
    const std::vector<Tap> taps = taps_of(p.shape);
    const std::size_t in = p.shape.in_channels, out = p.shape.out_channels;
    // Taps see different numbers of pixels; several parts per thread balance that.
    const std::size_t parts = taps.size() == 1 ? context.threads : 8 * context.threads / taps.size();
    const std::size_t ranges = std::clamp<std::size_t>(parts, 1, std::max<std::size_t>(1, in / 64));
    std::size_t scratch = 1;
    for (const Tap& tap : taps)
        if (const std::size_t pixels = tap.out.count(); pixels != 0)
            scratch = std::max(scratch, images_at_once(pixels, p.shape.batch) * pixels *
                                            ((tap.in.all() ? 0 : in) + (tap.out.all() ? 0 : out)));
    const Scratch memory = Scratch::of_floats(context, scratch * context.threads);
    return [&context, p, taps, ranges, scratch, in, memory] {
        TapProducts products;
        float* const floats = memory.floats();
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(int(context.threads))
        for (std::size_t tap = 0; tap < taps.size(); ++tap)
            for (std::size_t range = 0; range < ranges; ++range) {
                const std::size_t channel = begin_of(range, ranges, in);
                weights_gradient(products, p, taps[tap], channel, begin_of(range + 1, ranges, in) - channel,
                                 floats + std::size_t(omp_get_thread_num()) * scratch);
            }
        if (p.bias != 0) bias_gradient(context, p);
        products.require_success();
    };
}

template<class Params>
std::optional<LaunchConfig> config(const Launch& launch, const DeviceFacts&) {
    const ConvShape s = launch.parameters.as<Params>().shape;
    if (!few_pixels(s)) return {};
    return LaunchConfig{.cost = multiplications(s, true)};
}

template<class Params>
std::vector<LaunchConfig> configs(const Launch& launch, const DeviceFacts&) {
    const ConvShape s = launch.parameters.as<Params>().shape;
    if (!fast_products || s.groups != 1) return {};
    if constexpr (std::is_same_v<Params, Conv2dBackwardWeightsParams>)
        if (std::size_t(s.batch) * s.out_height * s.out_width > most_pixels) return {};
    return {LaunchConfig{.cost = multiplications(s, true)}};
}

Work forward(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<Conv2dForwardParams>();
    return ready(context, Pass{.shape = p.shape,
                               .forward = true,
                               .source = p.x.at,
                               .weights = p.w.at,
                               .target = p.y.at,
                               .bias = p.bias != 0 ? p.b.at : nullptr,
                               .mask = nullptr,
                               .relu = p.relu != 0});
}

Work backward_data(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<Conv2dBackwardDataParams>();
    return ready(context, Pass{.shape = p.shape,
                               .forward = false,
                               .source = p.dy.at,
                               .weights = p.w.at,
                               .target = p.dx.at,
                               .bias = nullptr,
                               .mask = p.relu != 0 ? p.x.at : nullptr,
                               .relu = false});
}

Work backward_weights(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    return ready(context, launch.parameters.as<Conv2dBackwardWeightsParams>());
}

} // namespace

bool few_pixels(const ConvShape& s) {
    if (!fast_products || s.groups != 1 || std::min(s.in_channels, s.out_channels) < least_channels)
        return false;
    if (s.in_height * s.in_width * s.kernel_height * s.kernel_width == 1 && weights(s) < least_dense_weights)
        return false;
    return std::size_t(s.batch) * s.out_height * s.out_width * weights_per_pixel <= weights(s);
}

double multiplications(const ConvShape& s, bool without_padding) {
    const auto seen = [&](std::size_t kernel, std::size_t dilation, std::size_t in, std::size_t out,
                          std::size_t stride, std::size_t pad) {
        std::size_t pixels = 0;
        for (std::size_t k = 0; k < kernel; ++k)
            pixels += without_padding ? span(k * dilation, in, out, stride, pad).count : out;
        return double(pixels);
    };
    return seen(s.kernel_height, s.dilation_y, s.in_height, s.out_height, s.stride_y, s.pad_top) *
           seen(s.kernel_width, s.dilation_x, s.in_width, s.out_width, s.stride_x, s.pad_left) * s.batch *
           (s.in_channels / s.groups) * s.out_channels;
}

std::span<const CpuVariant> conv2d_gemm_overrides() {
    constexpr const char* name = "products of matrices";
    static constexpr CpuVariant overrides[] = {
        {{Kernel::conv2d_forward, name, config<Conv2dForwardParams>, configs<Conv2dForwardParams>}, forward},
        {{Kernel::conv2d_backward_data, name, config<Conv2dBackwardDataParams>,
          configs<Conv2dBackwardDataParams>},
         backward_data},
        {{Kernel::conv2d_backward_weights, name, config<Conv2dBackwardWeightsParams>,
          configs<Conv2dBackwardWeightsParams>},
         backward_weights}};
    return overrides;
}

} // namespace towers
