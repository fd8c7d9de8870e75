#include "backends/launch/shared_source.h"

#include "backends/arithmetic.h"
#include "backends/launch/costs.h"
#include "backends/launch/stages.h"

#include <algorithm>

namespace towers {
namespace {

constexpr std::uint64_t most_loops = 4096; // 2^20 invocations fill any device

// Where a driver ends loops:
constexpr std::uint64_t most_in_a_loop = 1 << 14; ///< pixels
constexpr unsigned most_rounds = 64;              ///< of loops around an item's

/// Sums over rows of so many channels
struct RowSums {
    std::uint64_t groups, rows;
    uint channels;
};

/// None for kernels without such sums that can be split.
std::optional<RowSums> row_sums_of(const Launch& launch) {
    return with_row_sums(launch, [](const auto& p) {
        if constexpr (requires { p.groups; }) return RowSums{p.groups, p.rows, p.channels};
        return RowSums{1, p.rows, p.channels};
    });
}

/// An invocation adds up no more than 512 rows, since a sum of more would lose digits.
unsigned splits_of(const RowSums& sums, const DeviceFacts& facts) {
    const uint quads = QUADS_OF(sums.channels);
    std::uint64_t wanted = 0, most = 0, least = 0;
    if (facts.software) { // an invocation takes the rows of a split
        wanted = 1024 * facts.busy_groups / (sums.groups * quads);
        most = sums.rows / 128;
        least = ceil_div(sums.rows, 512);
    } else { // A workgroup does. Four for each of a card's processors: some read while others add up their
             // sums.
        const std::uint64_t at_once = ROWS_AT_ONCE(COLUMN_WIDTH(quads, BATCH_NORM_COLUMNS));
        wanted = 2 * facts.busy_groups / (sums.groups * COLUMN_BLOCKS(quads, BATCH_NORM_COLUMNS));
        most = sums.rows / (at_once * ROWS_IN_FLIGHT); // all of a split's rows are loaded at once
        least = ceil_div(sums.rows, at_once * 512);
    }
    const std::uint64_t splits =
        facts.limits->splits != 0 ? facts.limits->splits : std::max(std::min(wanted, most), least);
    return unsigned(std::clamp<std::uint64_t>(splits, 1, sums.rows));
}

/// Into how many parts sums must be split where a driver ends loops
unsigned needed_splits(const Launch& launch, const Products& products, const DeviceFacts& facts) {
    if (!facts.ends_loops || launch.kernel != Kernel::conv2d_backward_weights) return 1;
    return unsigned(ceil_div(products.depth, most_in_a_loop));
}

double cycles(const Launch& launch, const Products& products, const Tile& tile, unsigned splits,
              const DeviceFacts& facts) {
    return cycles_of(products, tile, splits, shared_costs(launch.kernel), facts);
}

} // namespace

glm::uvec3 groups_within(std::uint64_t groups, const DeviceFacts& facts) {
    constexpr std::uint64_t most = 65535; // per axis, which every driver guarantees
    const std::uint64_t limit = facts.limits->most_groups != 0 ? facts.limits->most_groups : most;
    return {unsigned(std::clamp<std::uint64_t>(groups, 1, limit)), 1, 1};
}

unsigned least_splits(const Launch& launch, const Products& products, const DeviceFacts& facts) {
    constexpr std::uint64_t few = 1 << 15;  // sums, so that adding up parts costs next to nothing
    constexpr std::uint64_t most = 1 << 24; // floats of all parts
    // Equal gradients of 1024 pixels are off by up to 1e-5. Other devices are compared with software drivers.
    const std::uint64_t pixels = facts.software ? 512 : 4096;
    const std::uint64_t needed = needed_splits(launch, products, facts);
    if (launch.kernel != Kernel::conv2d_backward_weights || products.elements() > few)
        return unsigned(needed);
    return unsigned(std::clamp<std::uint64_t>(ceil_div(products.depth, pixels), needed,
                                              std::max(needed, most / products.elements())));
}

unsigned splits_of(const Launch& launch, const DeviceFacts& facts) {
    if (const auto sums = row_sums_of(launch)) return splits_of(*sums, facts);
    const auto products = products_of(launch);
    if (!products && launch.kernel != Kernel::depthwise_conv2d_backward_weights) return 1;
    if (facts.limits->splits != 0) return facts.limits->splits;
    std::uint64_t wanted = 0, most = 0;
    if (products) {
        constexpr unsigned depth = 256; // that is worth a tile
        wanted = std::max<std::uint64_t>(facts.busy_groups /
                                             products->tiles(tile_for(*products, facts.busy_groups)),
                                         least_splits(launch, *products, facts));
        most = products->depth / depth;
    } else {
        const ConvShape s = launch.parameters.as<Conv2dBackwardWeightsParams>().shape;
        // An item reads four channels at once, so a quarter of the invocations keep the memory busy.
        const unsigned at_once = kernel_info(launch.kernel).workgroup_size / 4;
        wanted = std::uint64_t(facts.busy_groups) * at_once / items_of(launch);
        most = std::uint64_t(s.batch) * s.out_height;
        if (facts.ends_loops) wanted = std::max(wanted, ceil_div(most * (s.out_width + 1), most_in_a_loop));
    }
    return unsigned(std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(1, most)));
}

std::optional<LaunchConfig> shared_source_config(const Launch& launch, const DeviceFacts& facts) {
    const KernelInfo& kernel = kernel_info(launch.kernel);
    LaunchConfig config{.splits = splits_of(launch, facts)};
    std::uint64_t groups = 0;
    if (const auto products = products_of(launch)) {
        config.tile = tile_for(*products, facts.busy_groups);
        groups = products->tiles(*config.tile) * config.splits;
        config.cost = cycles(launch, *products, *config.tile, config.splits, facts);
    } else {
        const std::uint64_t items = items_of(launch) * config.splits;
        if (kernel.item == Item::subgroup) {
            const unsigned at_once = std::max(1u, kernel.workgroup_size / facts.subgroup_size);
            groups = std::max(ceil_div(items, at_once), std::min<std::uint64_t>(items, facts.busy_groups));
        } else if (kernel.item == Item::workgroup) { // A few keep a software driver busy.
            groups = facts.software ? std::min<std::uint64_t>(items, 8 * facts.busy_groups) : items;
        } else {
            groups = ceil_div(items, kernel.workgroup_size);
        }
        groups = std::min(groups, most_loops);
    }
    config.groups = groups_within(groups, facts);
    return config;
}

std::vector<LaunchConfig> shared_source_configs(const Launch& launch, const DeviceFacts& facts) {
    std::vector<LaunchConfig> configs{*shared_source_config(launch, facts)};
    const auto add = [&](const LaunchConfig& config) {
        const auto same = [&](const LaunchConfig& each) {
            return alike(each, config) && each.groups == config.groups;
        };
        if (std::ranges::none_of(configs, same)) configs.push_back(config);
    };
    if (const auto products = products_of(launch)) {
        const unsigned most_splits = splits_of(launch, facts);
        const unsigned fewest_splits = needed_splits(launch, *products, facts);
        for (const Tile& tile : tiles)
            for (const unsigned splits :
                 {facts.limits->splits != 0 ? most_splits : fewest_splits, most_splits})
                add({.groups = groups_within(products->tiles(tile) * splits, facts),
                     .tile = tile,
                     .splits = splits,
                     .cost = cycles(launch, *products, tile, splits, facts)});
    } else {
        const LaunchConfig usual = configs.front();
        for (const unsigned times : {1u, 4u}) {
            LaunchConfig fewer = usual;
            fewer.groups = groups_within(std::uint64_t(times) * facts.busy_groups, facts);
            const bool may_end = facts.ends_loops && fewer.groups.x * most_rounds < usual.groups.x;
            if (fewer.groups.x < usual.groups.x && !may_end) add(fewer);
        }
    }
    return configs;
}

} // namespace towers
