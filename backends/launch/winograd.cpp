#include "backends/launch/winograd.h"

#include "backends/launch/costs.h"
#include "backends/launch/quads.h"
#include "backends/launch/stages.h"

#include <algorithm>
#include <utility>

namespace towers {
namespace {

/// One pass of a convolution as F(m x m, r x r)
struct Pass {
    WinogradTiles images;  ///< the tiles of x, for the images' gradient of dy
    WinogradTiles results; ///< of y, dx, or, for the weights' gradient, of dy
    ConvShape product;     ///< of all points: images of one pixel, and a group for each point
    unsigned taps;

    std::uint64_t image_points() const { return std::uint64_t(product.batch) * product.in_channels; }
    std::uint64_t result_points() const { return std::uint64_t(product.batch) * product.out_channels; }
    std::uint64_t weight_points() const { return std::uint64_t(images.channels) * product.out_channels; }
};

/// `s`: what is computed, as the convolution of images with weights
Pass pass_of(const ConvShape& s, unsigned m) {
    const unsigned points = m + s.kernel_height - 1, squared = points * points;
    const WinogradTiles results{.batch = s.batch,
                                .height = s.out_height,
                                .width = s.out_width,
                                .channels = s.out_channels,
                                .down = uint(ceil_div(s.out_height, m)),
                                .across = uint(ceil_div(s.out_width, m)),
                                .step = m,
                                .top = 0,
                                .left = 0,
                                .points = points};
    WinogradTiles images = results;
    images.height = s.in_height;
    images.width = s.in_width;
    images.channels = s.in_channels;
    images.top = s.pad_top;
    images.left = s.pad_left;
    const ConvShape product{.batch = WINOGRAD_TILES(results),
                            .in_height = 1,
                            .in_width = 1,
                            .in_channels = squared * s.in_channels,
                            .out_height = 1,
                            .out_width = 1,
                            .out_channels = squared * s.out_channels,
                            .kernel_height = 1,
                            .kernel_width = 1,
                            .stride_y = 1,
                            .stride_x = 1,
                            .dilation_y = 1,
                            .dilation_x = 1,
                            .pad_top = 0,
                            .pad_left = 0,
                            .groups = squared};
    return {images, results, product, s.kernel_height};
}

/// The gradient of the images is the convolution of dy with the weights turned and transposed.
ConvShape turned(ConvShape s) {
    std::swap(s.in_height, s.out_height);
    std::swap(s.in_width, s.out_width);
    std::swap(s.in_channels, s.out_channels);
    s.pad_top = s.kernel_height - 1 - s.pad_top; // negative by unsigned wrap-around
    s.pad_left = s.kernel_width - 1 - s.pad_left;
    return s;
}

/// What a launch of one of the three kernels computes, as pass_of() takes it; none: of another kernel.
std::optional<ConvShape> convolution_of(const Launch& launch) {
    switch (launch.kernel) {
    case Kernel::conv2d_forward:
        return launch.parameters.as<Conv2dForwardParams>().shape;
    case Kernel::conv2d_backward_data:
        return turned(launch.parameters.as<Conv2dBackwardDataParams>().shape);
    case Kernel::conv2d_backward_weights:
        return launch.parameters.as<Conv2dBackwardWeightsParams>().shape;
    default:
        return {};
    }
}

bool fits(const ConvShape& s) {
    return (s.kernel_height == 3 || s.kernel_height == 5) && s.kernel_width == s.kernel_height &&
           s.stride_y == 1 && s.stride_x == 1 && s.dilation_y == 1 && s.dilation_x == 1 && s.groups == 1 &&
           s.in_channels % 4 == 0 && s.out_channels % 4 == 0;
}

/// Kernels index with 32 bits.
bool can_be_indexed(const Pass& pass) {
    constexpr std::uint64_t most = std::uint64_t(1) << 31;
    return pass.image_points() < most && pass.result_points() < most && pass.weight_points() < most;
}

Launch product_launch(const Launch& launch, const Pass& pass) {
    if (launch.kernel == Kernel::conv2d_backward_weights)
        return towers::launch(kernels::conv2d_backward_weights, {.shape = pass.product, .splits = 1});
    return towers::launch(kernels::conv2d_forward, {.shape = pass.product, .splits = 1});
}

/// All three stages. `product`: cycles of the second one
double cycles_of(const Launch& launch, const Pass& pass, double product, const DeviceFacts& facts) {
    const auto pixels = [](const WinogradTiles& of) {
        return double(of.batch) * of.height * of.width * of.channels;
    };
    const double weights = double(pass.taps) * pass.taps * pass.images.channels * pass.results.channels +
                           double(pass.weight_points());
    const double images = pixels(pass.images) + double(pass.image_points()),
                 results = pixels(pass.results) + double(pass.result_points());
    if (launch.kernel != Kernel::conv2d_backward_weights)
        return cycles_of_stage(images + weights, facts) + product + cycles_of_stage(results, facts);
    const WinogradTiles& dy = pass.results;
    const bool bias = launch.parameters.as<Conv2dBackwardWeightsParams>().bias != 0;
    double first = cycles_of_stage(images + results + (bias ? pixels(dy) : 0), facts);
    if (bias) { // its gradient runs beside the others' stages
        const unsigned image = dy.height * dy.width;
        first = std::max(first, cycles_of_sum(double(image) * dy.channels, dy.batch, facts));
        product = std::max(product, cycles_of_sum(dy.channels, image, facts));
    }
    return first + product + cycles_of_stage(weights, facts);
}

/// A first stage of transforms, a product, and a last stage that forward and data gradient share
void add_product(StageBuilder& stages, const Pass& pass, const LaunchConfig& config, const DeviceFacts& facts,
                 const float* images, const float* weights, WinogradResultsParams results) {
    float* const products = stages.reserve(pass.result_points());
    Conv2dForwardParams product{.shape = pass.product, .splits = 1};
    product.x = {images};
    product.w = {weights};
    product.y = {products};
    stages.add(1, split_stages(KernelSource::quads, launch(kernels::conv2d_forward, product), config, facts,
                               stages.unreserved()));
    results.products = {products};
    results.tiles = pass.results;
    stages.add(2, kernels::winograd_results, results);
}

float* add_images(StageBuilder& stages, const Pass& pass, In_f32 x) {
    float* const points = stages.reserve(pass.image_points());
    stages.add(0, kernels::winograd_images, {.x = x, .v = {points}, .tiles = pass.images});
    return points;
}

float* add_weights(StageBuilder& stages, const Pass& pass, const ConvShape& s, In_f32 w, bool mirrored) {
    float* const points = stages.reserve(pass.weight_points());
    stages.add(0, kernels::winograd_weights,
               {.w = w,
                .u = {points},
                .points = pass.images.points,
                .taps = pass.taps,
                .in_channels = s.in_channels,
                .out_channels = s.out_channels,
                .mirrored = mirrored});
    return points;
}

void add_stages(StageBuilder& stages, const Pass& pass, const LaunchConfig& config, const DeviceFacts& facts,
                const Conv2dForwardParams& p) {
    const float* const images = add_images(stages, pass, p.x);
    const float* const weights = add_weights(stages, pass, p.shape, p.w, false);
    add_product(stages, pass, config, facts, images, weights,
                {.b = p.b, .y = p.y, .bias = p.bias, .relu = p.relu});
}

void add_stages(StageBuilder& stages, const Pass& pass, const LaunchConfig& config, const DeviceFacts& facts,
                const Conv2dBackwardDataParams& p) {
    const float* const images = add_images(stages, pass, p.dy);
    const float* const weights = add_weights(stages, pass, p.shape, p.w, true);
    add_product(stages, pass, config, facts, images, weights, {.mask = p.x, .y = p.dx, .masked = p.relu});
}

void add_stages(StageBuilder& stages, const Pass& pass, const LaunchConfig& config, const DeviceFacts& facts,
                const Conv2dBackwardWeightsParams& p) {
    const ConvShape& s = p.shape;
    const float* const images = add_images(stages, pass, p.x);
    float* const gradients = stages.reserve(pass.result_points());
    stages.add(0, kernels::winograd_gradients, {.dy = p.dy, .v = {gradients}, .tiles = pass.results});
    float* const products = stages.reserve(pass.weight_points());
    Conv2dBackwardWeightsParams product{.shape = pass.product, .splits = 1};
    product.x = {images};
    product.dy = {gradients};
    product.dw = {products};
    const StagedLaunch split =
        split_stages(KernelSource::quads, launch(kernels::conv2d_backward_weights, product), config, facts,
                     stages.unreserved());
    stages.add(1, split);
    stages.add(1 + split.stages.size(), kernels::winograd_weight_gradients,
               {.products = {products},
                .dw = p.dw,
                .points = pass.images.points,
                .taps = pass.taps,
                .in_channels = s.in_channels,
                .out_channels = s.out_channels});
    if (p.bias == 0) return;
    // The bias's gradient: the sum over images, then over their pixels
    const uint pixels = s.out_height * s.out_width, count = pixels * s.out_channels;
    float* const sums = stages.reserve(count);
    stages.add(
        0, kernels::sum_partials,
        {.partials = p.dy, .sum = {sums}, .parts = s.batch, .count = count, .channels = s.out_channels});
    stages.add(1, kernels::sum_partials,
               {.partials = {sums},
                .sum = p.db,
                .parts = pixels,
                .count = s.out_channels,
                .channels = s.out_channels});
}

} // namespace

std::vector<LaunchConfig> winograd_configs(const Launch& launch, const DeviceFacts& facts) {
    std::vector<LaunchConfig> configs;
    const std::optional<ConvShape> s = convolution_of(launch);
    if (!facts.quads || facts.software || facts.exact_products || facts.little_scratch || !s || !fits(*s))
        return configs;
    ConfigLimits whole = *facts.limits;
    whole.splits = 1;
    for (const unsigned m : {2u, 4u}) {
        const Pass pass = pass_of(*s, m);
        if ((facts.limits->winograd_tile != 0 && facts.limits->winograd_tile != m) || !can_be_indexed(pass))
            continue;
        DeviceFacts of_product = facts; // at so many points there are tiles enough for every device
        if (launch.kernel != Kernel::conv2d_backward_weights) of_product.limits = &whole;
        for (const LaunchConfig& product : quads_configs(product_launch(launch, pass), of_product)) {
            LaunchConfig config = product;
            config.winograd_tile = m;
            config.cost = cycles_of(launch, pass, product.cost, facts);
            const auto same = std::ranges::find_if(configs, [&](const LaunchConfig& each) {
                return each.winograd_tile == m && each.tile->height == config.tile->height &&
                       each.tile->width == config.tile->width;
            });
            if (same == configs.end())
                configs.push_back(config);
            else if (config.cost < same->cost)
                *same = config;
        }
    }
    return configs;
}

std::optional<LaunchConfig> winograd_config(const Launch& launch, const DeviceFacts& facts) {
    const std::optional<LaunchConfig> best = cheapest(winograd_configs(launch, facts));
    const bool asked_for = facts.limits->winograd_tile != 0;
    if (best && !asked_for && best->cost >= product_config(launch, facts)->cost) return {};
    return best;
}

StagedLaunch winograd_stages(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                             std::uint64_t scratch) {
    StageBuilder stages(facts, scratch);
    const Pass pass = pass_of(*convolution_of(launch), config.winograd_tile);
    with_parameters(launch, [&](const auto& p) { add_stages(stages, pass, config, facts, p); });
    return std::move(stages).finish();
}

} // namespace towers
