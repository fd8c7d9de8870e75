#include "backends/arithmetic.h"
#include "backends/cpu/level.h"
#include "backends/cpu/long_sums.h"
#include "backends/cpu/overrides.h"
#include "backends/cpu/taps.h"

#include <algorithm>
#include <omp.h>
#include <type_traits>

// Chooses and plans Winograd's convolutions (winograd.h says what they are). Threads share out a pass as
// blocks of tiles; each block goes through all its transforms and products in one thread's cache. Where the
// weights are many and the tiles few, threads also share out the output channels, and each transforms its
// input itself.

namespace towers {
namespace {

/// This processor's code for F(m x m, r x r), or null
const WinogradCode* code_of(std::size_t m, std::size_t r) {
    const LevelCode* const level = level_code();
    return level != nullptr ? level->winograd(m, r) : nullptr;
}

WinogradShape shape_of(const ConvShape& s) {
    return {s.batch,
            s.in_height,
            s.in_width,
            s.in_channels,
            s.out_height,
            s.out_width,
            s.out_channels,
            std::ptrdiff_t(s.pad_top),
            std::ptrdiff_t(s.pad_left)};
}

/// The data gradient is the convolution of dy with the mirrored weights.
WinogradShape mirrored(const ConvShape& s) {
    return {s.batch,
            s.out_height,
            s.out_width,
            s.out_channels,
            s.in_height,
            s.in_width,
            s.in_channels,
            std::ptrdiff_t(s.kernel_height) - 1 - std::ptrdiff_t(s.pad_top),
            std::ptrdiff_t(s.kernel_width) - 1 - std::ptrdiff_t(s.pad_left)};
}

/// Whether to take all tiles at once: they are so few that U and D are larger than what they are made of.
bool at_once(const WinogradCode& code, const WinogradShape& s) {
    constexpr std::size_t most = 128, least_weights = 128 * 128;
    return code.tiles(s) <= most && s.in_channels * s.out_channels >= least_weights;
}

/// Costs in multiplications of oneDNN's convolutions, measured with AVX2 and AVX-512 on 16 to 512 channels:
/// of one in a product, and of a transform for each point, by channel of a tile and by weight: the latter are
/// transformed in memory, or in a cache if all tiles are taken at once.
constexpr double cost_of_product = 1.3, cost_of_transform = 16, cost_of_weight = 40, cost_in_cache = 12;

double cost(const WinogradCode& code, const WinogradShape& s) {
    const double tiles = double(code.tiles(s)), points = double(code.points);
    const double in = double(s.in_channels), out = double(s.out_channels);
    return points * (tiles * (cost_of_product * in * out + cost_of_transform * (in + out)) +
                     (at_once(code, s) ? cost_in_cache : cost_of_weight) * in * out);
}

/// Of a convolution of this shape, which is computed as `pass`
std::vector<LaunchConfig> configs_for(const ConvShape& s, const WinogradShape& pass,
                                      const DeviceFacts& facts) {
    std::vector<LaunchConfig> configs;
    const bool fits = s.kernel_height == s.kernel_width && s.stride_y == 1 && s.stride_x == 1 &&
                      s.dilation_y == 1 && s.dilation_x == 1 && s.groups == 1;
    if (!fits || facts.exact_products) return configs;
    for (const unsigned m : {2u, 4u}) {
        const WinogradCode* const code = code_of(m, s.kernel_height);
        if (code != nullptr && (facts.limits->winograd_tile == 0 || facts.limits->winograd_tile == m))
            configs.push_back({.winograd_tile = m, .cost = cost(*code, pass)});
    }
    return configs;
}

/// How many tiles to transform and multiply at once: V and M should stay in a second-level cache, but for
/// fewer tiles it takes longer to read the weights than to multiply by them.
std::size_t block_of(const WinogradCode& code, const WinogradShape& s) {
    const std::size_t tile = code.points * (s.in_channels + s.out_channels) * sizeof(float);
    constexpr std::size_t cache = std::size_t(700) << 10, least = 12, most = 72;
    return std::min(code.tiles(s), std::clamp(cache / tile / 12 * 12, least, most));
}

WinogradRange range_of(std::size_t size, std::size_t parts, std::size_t number) {
    return {size * number / parts, size * (number + 1) / parts};
}

/// Scratch memory: U, then each thread's V and M.
Work prepare_blocks(CpuContext& context, const WinogradCode& code, const WinogradForward& pass,
                    const WinogradWeights& weights) {
    const WinogradShape& s = pass.shape;
    const std::size_t panels = code.panels(s), batches = ceil_div(s.in_channels, code.weight_rows);
    const std::size_t blocks = ceil_div(code.tiles(s), block_of(code, s));
    const std::size_t ranges = std::clamp<std::size_t>(2 * context.threads / blocks, 1, panels);
    const std::size_t u = code.weight_floats(s);
    const std::size_t own = code.scratch(s, block_of(code, s), ceil_div(panels, ranges));
    const Scratch memory = Scratch::of_floats(context, u + own * context.threads);
    return [&context, &code, pass, weights, panels, batches, blocks, ranges, u, own, memory] {
        const std::size_t rows = pass.shape.in_channels, plane = (rows + 1) * pass.shape.panel;
        float* const floats = memory.floats();
        WinogradForward with_u = pass;
        with_u.u = floats;
#pragma omp parallel num_threads(int(context.threads))
        {
            float* const scratch = floats + u + own * std::size_t(omp_get_thread_num());
#pragma omp for collapse(2)
            for (std::size_t panel = 0; panel < panels; ++panel)
                for (std::size_t batch = 0; batch < batches; ++batch) {
                    const WinogradRange range = range_of(rows, batches, batch);
                    code.weights(weights, range, panel,
                                 floats + panel * code.points * plane + range.first * pass.shape.panel,
                                 plane);
                }
#pragma omp for collapse(2) schedule(dynamic)
            for (std::size_t range = 0; range < ranges; ++range)
                for (std::size_t block = 0; block < blocks; ++block)
                    code.forward(with_u, range_of(code.tiles(pass.shape), blocks, block),
                                 range_of(panels, ranges, range), scratch);
        }
    };
}

/// Scratch memory: V and a row of zeros, then each thread's M and its chunk of U.
Work prepare_at_once(CpuContext& context, const WinogradCode& code, const WinogradForward& pass,
                     const WinogradWeights& weights) {
    const WinogradShape& s = pass.shape;
    const std::size_t panels = code.panels(s), tiles = code.tiles(s);
    const std::size_t ranges = std::min(ceil_div(context.threads, panels), tiles);
    const std::size_t v = code.input_floats(s, tiles), shared = v + s.in_channels;
    const std::size_t own = code.panel_floats(s, ceil_div(tiles, ranges)) + code.panel_floats(s, s.chunk);
    const Scratch memory = Scratch::of_floats(context, shared + own * context.threads);
    return [&context, &code, pass, weights, panels, tiles, ranges, v, shared, own, memory] {
        float* const floats = memory.floats();
        std::fill(floats + v, floats + shared, 0.0f);
#pragma omp parallel num_threads(int(context.threads))
        {
            float* const scratch = floats + shared + own * std::size_t(omp_get_thread_num());
#pragma omp for
            for (std::size_t tile = 0; tile < tiles; ++tile)
                code.input(pass.shape, pass.x, {tile, tile + 1}, floats + v, floats);
#pragma omp for collapse(2) schedule(dynamic)
            for (std::size_t panel = 0; panel < panels; ++panel)
                for (std::size_t range = 0; range < ranges; ++range)
                    code.panel_of_results(pass, weights, floats, range_of(tiles, ranges, range), panel,
                                          scratch);
        }
    };
}

Work prepare(CpuContext& context, const WinogradCode& code, WinogradForward pass, WinogradWeights weights) {
    pass.shape = code.arranged(pass.shape);
    weights.panel = pass.shape.panel;
    return (at_once(code, pass.shape) ? prepare_at_once : prepare_blocks)(context, code, pass, weights);
}

Work forward(CpuContext& context, const Launch& launch, const LaunchConfig& config) {
    const auto p = launch.parameters.as<Conv2dForwardParams>();
    return prepare(context, *code_of(config.winograd_tile, p.shape.kernel_height),
                   {.shape = shape_of(p.shape),
                    .x = p.x.at,
                    .u = nullptr,
                    .y = p.y.at,
                    .bias = p.bias != 0 ? p.b.at : nullptr,
                    .mask = nullptr,
                    .relu = p.relu != 0},
                   {p.w.at, p.shape.in_channels, p.shape.out_channels, false});
}

Work backward_data(CpuContext& context, const Launch& launch, const LaunchConfig& config) {
    const auto p = launch.parameters.as<Conv2dBackwardDataParams>();
    return prepare(context, *code_of(config.winograd_tile, p.shape.kernel_height),
                   {.shape = mirrored(p.shape),
                    .x = p.dy.at,
                    .u = nullptr,
                    .y = p.dx.at,
                    .bias = nullptr,
                    .mask = p.relu != 0 ? p.x.at : nullptr,
                    .relu = false},
                   {p.w.at, p.shape.in_channels, p.shape.out_channels, true});
}

/// Each thread adds up the gradient of its own tiles; if D is large, of its own output channels instead.
/// Scratch memory: D and the bias's gradient of each group of threads with the same tiles, twice if they are
/// sums of two levels, then each thread's V and M.
Work gradient_by_blocks(CpuContext& context, const WinogradCode& code, const Conv2dBackwardWeightsParams& p) {
    const WinogradShape s = code.arranged(shape_of(p.shape));
    constexpr std::size_t large = std::size_t(1) << 20; // floats
    const std::size_t panels = code.panels(s), batches = ceil_div(s.in_channels, code.weight_rows);
    const std::size_t d = code.weight_floats(s);
    const std::size_t ranges = d > large ? std::min<std::size_t>(context.threads, panels) : 1;
    const std::size_t groups = std::min(context.threads / ranges, code.tiles(s));
    const std::size_t block = block_of(code, s), biases = p.bias != 0 ? s.out_channels : 0;
    const std::size_t run = block * parts_of_sum; // tiles whose blocks are added up one after another
    const std::size_t sums = d + biases, own = code.scratch(s, block, ceil_div(panels, ranges));
    const bool two_levels = ceil_div(code.tiles(s), groups) > run;
    const std::size_t of_group = two_levels ? 2 * sums : sums;
    const Scratch memory = Scratch::of_floats(context, of_group * groups + own * context.threads);
    return [&context, &code, p, s, panels, batches, d, ranges, groups, block, biases, run, sums, own,
            two_levels, of_group, memory] {
        float* const floats = memory.floats();
#pragma omp parallel num_threads(int(context.threads))
        {
            float* const scratch = floats + of_group * groups + own * std::size_t(omp_get_thread_num());
#pragma omp for
            for (std::size_t i = 0; i < of_group * groups; ++i) floats[i] = 0.0f;
#pragma omp for collapse(2)
            for (std::size_t group = 0; group < groups; ++group)
                for (std::size_t range = 0; range < ranges; ++range) {
                    float* const totals = floats + group * of_group;
                    float* const parts = two_levels ? totals + sums : totals;
                    const WinogradRange tiles = range_of(code.tiles(s), groups, group);
                    const WinogradRange columns = range_of(panels, ranges, range);
                    for (std::size_t first = tiles.first; first < tiles.end; first += run) {
                        code.gradient({.shape = s,
                                       .x = p.x.at,
                                       .dy = p.dy.at,
                                       .block = block,
                                       .sums = parts,
                                       .bias_sums = biases != 0 ? parts + d : nullptr},
                                      {first, std::min(first + run, tiles.end)}, columns, scratch);
                        if (!two_levels) continue;
                        const auto move = [&](std::size_t begin, std::size_t end) {
                            move_into(totals + begin, parts + begin, end - begin);
                        };
                        move(columns.first * (d / panels), columns.end * (d / panels));
                        if (biases != 0)
                            move(d + columns.first * s.panel, d + std::min(columns.end * s.panel, biases));
                    }
                }
#pragma omp for collapse(2)
            for (std::size_t panel = 0; panel < panels; ++panel)
                for (std::size_t batch = 0; batch < batches; ++batch) {
                    const WinogradRange rows = range_of(s.in_channels, batches, batch);
                    const std::size_t plane = (s.in_channels + 1) * s.panel;
                    const float* const of_first = floats + panel * code.points * plane + rows.first * s.panel;
                    code.finish(s, {of_first, plane, groups, of_group}, rows, panel, p.dw.at);
                }
#pragma omp for
            for (std::size_t k = 0; k < biases; ++k) {
                float sum = 0.0f;
                for (std::size_t group = 0; group < groups; ++group) sum += floats[group * of_group + d + k];
                p.db.at[k] = sum;
            }
        }
    };
}

/// Scratch memory: V, dy, and a row of zeros, then each thread's chunk of D.
Work gradient_at_once(CpuContext& context, const WinogradCode& code, const Conv2dBackwardWeightsParams& p) {
    const WinogradShape s = code.arranged(shape_of(p.shape));
    const std::size_t panels = code.panels(s), chunks = code.chunks(s), tiles = code.tiles(s);
    const std::size_t v = code.input_floats(s, tiles), both = v + panels * code.panel_floats(s, tiles);
    const std::size_t shared = both + std::max(s.in_channels, s.out_channels);
    const std::size_t own = code.panel_floats(s, s.chunk);
    const Scratch memory = Scratch::of_floats(context, shared + own * context.threads);
    return [&context, &code, p, s, panels, chunks, tiles, v, both, shared, own, memory] {
        float *const floats = memory.floats(), *const zeros = floats + both;
        std::fill(zeros, floats + shared, 0.0f);
        const WinogradGradient pass{.shape = s, .x = p.x.at, .dy = p.dy.at};
#pragma omp parallel num_threads(int(context.threads))
        {
            float* const scratch = floats + shared + own * std::size_t(omp_get_thread_num());
#pragma omp for nowait
            for (std::size_t panel = 0; panel < panels; ++panel)
                code.panel_of_dy(pass, panel, zeros, floats + v, p.bias != 0 ? p.db.at : nullptr);
#pragma omp for schedule(dynamic)
            for (std::size_t tile = 0; tile < tiles; ++tile)
                code.input(s, p.x.at, {tile, tile + 1}, zeros, floats);
#pragma omp for collapse(2) schedule(dynamic)
            for (std::size_t panel = 0; panel < panels; ++panel)
                for (std::size_t chunk = 0; chunk < chunks; ++chunk)
                    code.piece_of_gradient(s, floats, floats + v, chunk, panel, p.dw.at, scratch);
        }
    };
}

Work backward_weights(CpuContext& context, const Launch& launch, const LaunchConfig& config) {
    const auto p = launch.parameters.as<Conv2dBackwardWeightsParams>();
    const WinogradCode& code = *code_of(config.winograd_tile, p.shape.kernel_height);
    return (at_once(code, shape_of(p.shape)) ? gradient_at_once : gradient_by_blocks)(context, code, p);
}

template<class Params>
std::vector<LaunchConfig> configs(const Launch& launch, const DeviceFacts& facts) {
    const ConvShape s = launch.parameters.as<Params>().shape;
    constexpr bool data = std::is_same_v<Params, Conv2dBackwardDataParams>;
    return configs_for(s, data ? mirrored(s) : shape_of(s), facts);
}

/// The cheapest, if it is cheaper than without.
template<class Params>
std::optional<LaunchConfig> config(const Launch& launch, const DeviceFacts& facts) {
    const std::vector<LaunchConfig> all = configs<Params>(launch, facts);
    const auto best = std::ranges::min_element(all, {}, &LaunchConfig::cost);
    if (best == all.end()) return {};
    const ConvShape s = launch.parameters.as<Params>().shape;
    const double without = multiplications(s, few_pixels(s));
    if (facts.limits->winograd_tile == 0 && best->cost >= without) return {};
    return *best;
}

} // namespace

std::span<const CpuVariant> winograd_overrides() {
    constexpr std::string_view name = winograd_method;
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
