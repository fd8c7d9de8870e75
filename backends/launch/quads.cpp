#include "backends/launch/quads.h"

#include "backends/launch/costs.h"
#include "backends/launch/shared_source.h"
#include "backends/launch/stages.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <set>
#include <vector>

namespace towers {
namespace {

using namespace dialect;
#include "shaders/conv_phases.h"

/// Shared memory of a workgroup: two slices of each matrix, each row of which has a quad more, and each slice
/// four
unsigned bytes_of(const Tile& tile) {
    const auto floats = [](unsigned length) { return slice_depth * (length + 4) + 16; };
    return 2 * 4 * (floats(tile.height) + floats(tile.width));
}

/// By fragments: two slices of each matrix, rows of k or of each k a row, which are longer by 16 bytes, or 32
struct FragmentSlices {
    FragmentSlices(Kernel kernel, const Tile& tile, Precision operands) {
        const unsigned number = operands == Precision::tf32 ? 4 : 2;
        const unsigned parts = operands == Precision::fp32 ? 2 : 1;
        const unsigned depth = fragments_costs(operands).depth;
        const auto bytes = [&](bool along_k, unsigned length) {
            return 2 * parts *
                   (along_k ? length * (depth * number + 16) : depth * (length * number + 8 * number));
        };
        a_bytes = bytes(kernel != Kernel::conv2d_backward_weights, tile.height);
        b_bytes = bytes(kernel == Kernel::conv2d_backward_data, tile.width);
    }
    unsigned bytes() const { return a_bytes + b_bytes; }

    unsigned a_bytes, b_bytes;
};

/// Of a tiled kernel's launch
ConvShape shape_of(const Launch& launch) {
    return with_parameters(launch, [](const auto& p) { return p.shape; });
}

bool fits(const Launch& launch) {
    const ConvShape s = shape_of(launch);
    return s.in_channels / s.groups % 4 == 0 && s.out_channels / s.groups % 4 == 0;
}

/// All phases of an axis
struct Phases {
    uint count;
    std::uint64_t most_pixels = 0, most_taps = 0;
    std::uint64_t products = 0; ///< of a pixel and a tap
};

Phases all_phases(uint stride, uint dilation, uint kernel, uint padding, uint length) {
    Phases phases{.count = phases_of(stride, length)};
    for (uint number = 0; number < phases.count; ++number) {
        const Phase phase = phase_of(number, stride, dilation, kernel, padding, length);
        phases.most_pixels = std::max<std::uint64_t>(phases.most_pixels, phase.pixels);
        phases.most_taps = std::max<std::uint64_t>(phases.most_taps, phase.taps);
        phases.products += std::uint64_t(phase.pixels) * phase.taps;
    }
    return phases;
}

} // namespace

Products products_by_quads(const Launch& launch) {
    if (launch.kernel != Kernel::conv2d_backward_data) return *products_of(launch);
    const ConvShape s = shape_of(launch);
    const Phases y = all_phases(s.stride_y, s.dilation_y, s.kernel_height, s.pad_top, s.in_height),
                 x = all_phases(s.stride_x, s.dilation_x, s.kernel_width, s.pad_left, s.in_width);
    const uint out_group = s.out_channels / s.groups;
    return {.count = std::uint64_t(s.groups) * y.count * x.count,
            .rows = s.batch * y.most_pixels * x.most_pixels,
            .columns = s.in_channels / s.groups,
            .depth = y.most_taps * x.most_taps * out_group,
            .mean_depth = ceil_div(y.products * x.products * out_group,
                                   y.count * y.most_pixels * x.count * x.most_pixels)};
}

namespace {

/// The most splits that may be worth trying: they fill the device some times over, and have two slices each.
unsigned most_splits(const Products& products, const Tile& tile, const SourceCosts& costs,
                     const DeviceFacts& facts) {
    const std::uint64_t most = products.depth / (2 * costs.depth);
    return unsigned(std::clamp<std::uint64_t>(4 * facts.busy_groups / products.tiles(tile), 1,
                                              std::max<std::uint64_t>(1, most)));
}

/// The best number of parts by estimate, and for measuring also the least and those that fill the device once
/// and twice; ascending.
std::set<unsigned> numbers_of_splits(const Products& products, unsigned least, const Tile& tile,
                                     const SourceCosts& costs, const DeviceFacts& facts) {
    if (facts.limits->splits != 0) return {facts.limits->splits};
    const unsigned most = std::max(least, most_splits(products, tile, costs, facts));
    const auto cycles = [&](unsigned splits) { return cycles_of(products, tile, splits, costs, facts); };
    unsigned best = least;
    for (unsigned splits = least + 1; splits <= most; ++splits)
        if (cycles(splits) < cycles(best)) best = splits;
    std::set<unsigned> numbers{least, best};
    for (const unsigned times : {1u, 2u})
        numbers.insert(unsigned(
            std::clamp<std::uint64_t>(times * facts.busy_groups / products.tiles(tile), least, most)));
    return numbers;
}

/// Those of a source with one of its tiles
void add_configs(std::vector<LaunchConfig>& configs, const Launch& launch, const Tile& tile,
                 Precision operands, const SourceCosts& costs, const DeviceFacts& facts) {
    const Products products = products_by_quads(launch);
    for (const unsigned splits :
         numbers_of_splits(products, least_splits(launch, products, facts), tile, costs, facts))
        configs.push_back({.groups = groups_within(products.tiles(tile) * splits, facts),
                           .tile = tile,
                           .splits = splits,
                           .operands = operands,
                           .cost = cycles_of(products, tile, splits, costs, facts)});
}

/// What the source by fragments multiplies; fp32: that in two parts of bf16. None: it may not, or the device
/// cannot.
std::optional<Precision> operands_by_fragments(const DeviceFacts& facts) {
    if (facts.precision == Precision::fp32 && facts.exact_products) return {};
    if (!takes_fragments(facts.precision, facts.fragments)) return {};
    return facts.precision;
}

double cost_of(const std::optional<LaunchConfig>& config) {
    return config ? config->cost : std::numeric_limits<double>::infinity();
}

/// Elements of the tensors of a convolution without groups
struct Sizes {
    double images, outputs, weights;
};
Sizes sizes_of(const Launch& launch) {
    const ConvShape s = shape_of(launch);
    return {double(s.batch) * s.in_height * s.in_width * s.in_channels,
            double(s.batch) * s.out_height * s.out_width * s.out_channels,
            double(s.kernel_height) * s.kernel_width * s.in_channels * s.out_channels};
}

/// What padding the operands, and cutting the result, take beside the padded product.
double cycles_of_padding(const Launch& launch, const Launch& padded, unsigned splits,
                         const DeviceFacts& facts) {
    const Sizes real = sizes_of(launch), wide = sizes_of(padded);
    const bool forward = launch.kernel == Kernel::conv2d_forward,
               data = launch.kernel == Kernel::conv2d_backward_data,
               in_rows = shape_of(launch).kernel_width != shape_of(padded).kernel_width;
    const auto moved = [](double from, double to, bool always = false) {
        return always || from != to ? from + to : 0;
    };
    const double x = moved(real.images, wide.images, in_rows), y = moved(real.outputs, wide.outputs),
                 w = moved(real.weights, wide.weights);
    const double cycles = cycles_of_stage(forward ? x + w : data ? y + w : x + y, facts);
    const double cut = forward ? y : data ? x : w;
    return splits == 1 && cut != 0 ? cycles + cycles_of_stage(cut, facts) : cycles;
}

} // namespace

std::optional<LaunchConfig> cheapest(const std::vector<LaunchConfig>& configs) {
    const auto best = std::ranges::min_element(configs, {}, &LaunchConfig::cost);
    if (best == configs.end()) return {};
    return *best;
}

bool has_room(const Tile& tile, const DeviceFacts& facts) {
    return bytes_of(tile) <= facts.shared_memory &&
           tile.height * tile.width <= tile.threads * facts.quads_elements;
}

bool takes_fragments(Precision operands, const Fragments& fragments) {
    const bool in_parts = operands == Precision::fp32;
    const unsigned units = units_for(in_parts ? Precision::bf16 : operands);
    return (fragments.operands & units) != 0 && (!in_parts || fragments.in_parts);
}

bool has_room_for_fragments(Kernel kernel, const Tile& tile, Precision operands, const DeviceFacts& facts) {
    const Fragments& fragment = facts.fragments;
    const FragmentSlices slices(kernel, tile, operands);
    if (slices.bytes() + fragment.reserved_memory > facts.shared_memory ||
        tile.height * tile.width > tile.threads * fragment.most_elements)
        return false;
    if (fragment.of_workgroup) return true;
    // OWN_M and OWN_N, and the owners' patches, in shaders/gemm_fragments.h and its dialects
    const unsigned owners = tile.threads / fragment.invocations, own_columns = 32,
                   own_rows = tile.height * tile.width / (owners * own_columns);
    const unsigned patch = fragment.patch_rows * (fragment.columns + 4) * unsigned(sizeof(float));
    return owners * own_rows * own_columns == tile.height * tile.width && tile.height % own_rows == 0 &&
           own_rows % fragment.rows == 0 && own_columns % fragment.columns == 0 &&
           fragments_costs(operands).depth % fragment.depth == 0 &&
           fragment.patch_rows * fragment.columns / 4 % fragment.invocations == 0 &&
           owners * patch <= slices.a_bytes;
}

std::vector<LaunchConfig> quads_configs(const Launch& launch, const DeviceFacts& facts) {
    std::vector<LaunchConfig> configs;
    if (!facts.quads || !products_of(launch) || !fits(launch)) return configs;
    for (const Tile& tile : quad_tiles)
        if (has_room(tile, facts)) add_configs(configs, launch, tile, Precision::fp32, quads_costs, facts);
    return configs;
}

std::optional<LaunchConfig> quads_config(const Launch& launch, const DeviceFacts& facts) {
    return cheapest(quads_configs(launch, facts));
}

bool is_by_fragments(std::string_view variant) {
    return variant == fragments_source || variant == padded_fragments || variant == window_rows_by_fragments;
}

std::vector<LaunchConfig> fragments_configs(const Launch& launch, const DeviceFacts& facts) {
    std::vector<LaunchConfig> configs;
    const std::optional<Precision> operands = operands_by_fragments(facts);
    if (!operands || !products_of(launch) || !fits(launch)) return configs;
    for (const Tile& tile : fragment_tiles)
        if (has_room_for_fragments(launch.kernel, tile, *operands, facts))
            add_configs(configs, launch, tile, *operands, fragments_costs(*operands), facts);
    return configs;
}

namespace {

/// The cheapest of the ways by fragments if no other way is as cheap
std::optional<LaunchConfig> best_by_fragments(const std::vector<LaunchConfig>& configs,
                                              std::initializer_list<std::optional<LaunchConfig>> others,
                                              const DeviceFacts& facts) {
    if (facts.precision == Precision::fp32) return {};
    const std::optional<LaunchConfig> best = cheapest(configs);
    for (const std::optional<LaunchConfig>& other : others)
        if (cost_of(best) >= cost_of(other)) return {};
    return best;
}

} // namespace

std::optional<LaunchConfig> fragments_config(const Launch& launch, const DeviceFacts& facts) {
    return best_by_fragments(fragments_configs(launch, facts), {quads_config(launch, facts)}, facts);
}

std::optional<LaunchConfig> product_config(const Launch& launch, const DeviceFacts& facts) {
    const std::optional<LaunchConfig> by_fragments = fragments_config(launch, facts);
    return by_fragments ? by_fragments : quads_config(launch, facts);
}

namespace {

/// The configurations of a source
using Configs = std::vector<LaunchConfig> (*)(const Launch&, const DeviceFacts&);

/// Those of `padded`, which computes what the launch computes
std::vector<LaunchConfig> configs_of_padded(const Launch& launch, const Launch& padded, Configs configs_of,
                                            const DeviceFacts& facts) {
    std::vector<LaunchConfig> configs = configs_of(padded, facts);
    const Sizes wide = sizes_of(padded);
    const double results = double(products_of(padded)->elements());
    constexpr double most_indices = 0x1p32; // of the sources
    std::erase_if(configs, [&](const LaunchConfig& config) {
        return std::max({wide.images, wide.outputs, config.splits * results}) > most_indices;
    });
    for (LaunchConfig& config : configs)
        config.cost += cycles_of_padding(launch, padded, config.splits, facts);
    return configs;
}

bool can_be_padded(const Launch& launch) {
    return products_of(launch) && shape_of(launch).groups == 1 && !fits(launch);
}

std::optional<LaunchConfig> better_than_shared_source(const std::optional<LaunchConfig>& config,
                                                      const Launch& launch, const DeviceFacts& facts) {
    if (config && config->cost >= shared_source_config(launch, facts)->cost) return {};
    return config;
}

std::vector<LaunchConfig> padded_configs(const Launch& launch, Configs configs_of, const DeviceFacts& facts) {
    if (!can_be_padded(launch)) return {};
    return configs_of_padded(launch, with_padded_channels(launch), configs_of, facts);
}

std::vector<LaunchConfig> configs_in_rows(const Launch& launch, Configs configs_of,
                                          const DeviceFacts& facts) {
    if (launch.kernel == Kernel::conv2d_backward_data || !can_be_padded(launch)) return {};
    if (shape_of(launch).dilation_x != 1) return {};
    const Launch padded = with_padded_channels(with_window_rows(launch));
    const Sizes real = sizes_of(launch), in_rows = sizes_of(padded);
    const bool sums_are_shorter = in_rows.weights < sizes_of(with_padded_channels(launch)).weights;
    // No device is short of memory because of the rows: they need no more than the launch's own tensors have.
    const bool are_small = in_rows.images <= std::max(real.images, real.outputs);
    if (!sums_are_shorter || !are_small) return {};
    return configs_of_padded(launch, padded, configs_of, facts);
}

} // namespace

std::vector<LaunchConfig> padded_quads_configs(const Launch& launch, const DeviceFacts& facts) {
    return padded_configs(launch, quads_configs, facts);
}

std::optional<LaunchConfig> padded_quads_config(const Launch& launch, const DeviceFacts& facts) {
    return better_than_shared_source(cheapest(padded_quads_configs(launch, facts)), launch, facts);
}

std::vector<LaunchConfig> window_rows_configs(const Launch& launch, const DeviceFacts& facts) {
    return configs_in_rows(launch, quads_configs, facts);
}

std::optional<LaunchConfig> window_rows_config(const Launch& launch, const DeviceFacts& facts) {
    const std::optional<LaunchConfig> best = cheapest(window_rows_configs(launch, facts));
    if (!best) return {};
    const std::optional<LaunchConfig> channels = cheapest(padded_quads_configs(launch, facts));
    if (channels && best->cost >= channels->cost) return {};
    return better_than_shared_source(best, launch, facts);
}

std::vector<LaunchConfig> padded_fragments_configs(const Launch& launch, const DeviceFacts& facts) {
    return padded_configs(launch, fragments_configs, facts);
}

std::optional<LaunchConfig> padded_fragments_config(const Launch& launch, const DeviceFacts& facts) {
    return best_by_fragments(padded_fragments_configs(launch, facts),
                             {cheapest(window_rows_configs(launch, facts)),
                              cheapest(padded_quads_configs(launch, facts)),
                              shared_source_config(launch, facts)},
                             facts);
}

std::vector<LaunchConfig> window_rows_by_fragments_configs(const Launch& launch, const DeviceFacts& facts) {
    return configs_in_rows(launch, fragments_configs, facts);
}

std::optional<LaunchConfig> window_rows_by_fragments_config(const Launch& launch, const DeviceFacts& facts) {
    return best_by_fragments(
        window_rows_by_fragments_configs(launch, facts),
        {cheapest(padded_fragments_configs(launch, facts)), cheapest(window_rows_configs(launch, facts)),
         cheapest(padded_quads_configs(launch, facts)), shared_source_config(launch, facts)},
        facts);
}

} // namespace towers
