#include "backends/launch/costs.h"

#include "backends/arithmetic.h"

#include <algorithm>
#include <cmath>

namespace towers {
namespace {

/// Invocations that a processor's registers suffice for, where each computes 16 or 32 elements
constexpr unsigned most_threads = 512;
/// A barrier, and a launch behind it: 2.4 us
constexpr double stage_cycles = 4750;
/// Of memory, for each processor, where launches hand on to each other: 2760 GB/s
constexpr double bytes_per_cycle = 10.6;
/// Until a load arrives that the cache holds: 0.22 us. An invocation waits for four at once.
constexpr double load_cycles = 440;
constexpr unsigned loads_at_once = 4;
/// Invocations of kernels that are not tiled, of which a processor runs as many at once
constexpr double resident_threads = 2048;

double units_of(const DeviceFacts& facts) { return std::max(1u, facts.busy_groups / 2); }

double bytes_cycles(double bytes, const DeviceFacts& facts) {
    return bytes / bytes_per_cycle / units_of(facts);
}

/// Workgroups that a processor runs at once
unsigned resident(const Tile& tile, const SourceCosts& costs) {
    if (!costs.by_fragments) return most_threads / tile.threads;
#define TOWERS_FRAGMENT_TILE(rows, columns, invocations, workgroups)                                         \
    if (tile.height == rows && tile.width == columns) return workgroups;
#include "shaders/tiles.def"
    return 1;
}

/// A launch of products as workgroups with the same work
struct Groups {
    std::uint64_t count;
    double slices, most_slices; ///< that one computes on average, and the most
    double issue;               ///< cycles of a slice in which a processor can do nothing else
    double alone;               ///< cycles of a slice if the processor has one workgroup
    double store;               ///< cycles in which a processor's part of the memory takes the results
};

Groups groups_of(const Products& products, const Tile& tile, unsigned splits, const SourceCosts& costs) {
    const double edges = tile.height + tile.width, elements = double(tile.height) * tile.width;
    const double issue =
        (elements + costs.per_edge * edges + costs.whole) * costs.depth / costs.multiply_adds;
    const auto slices = [&](std::uint64_t depth) {
        return double(ceil_div(ceil_div(depth, costs.depth), splits));
    };
    return {.count = products.tiles(tile) * splits,
            .slices = slices(products.mean_depth),
            .most_slices = slices(products.depth),
            .issue = issue,
            .alone = issue + costs.wait + costs.wait_per_edge * edges,
            .store = elements * sizeof(float) / bytes_per_cycle};
}

} // namespace

double cycles_of(const Products& products, const Tile& tile, unsigned splits, const SourceCosts& costs,
                 const DeviceFacts& facts) {
    const Groups groups = groups_of(products, tile, splits, costs);
    const unsigned at_once = resident(tile, costs);
    const auto most = ceil_div(groups.count, std::uint64_t(units_of(facts))); // that one processor computes
    // So many side by side wait for each other's instructions, or all for memory.
    const auto turn = [&](std::uint64_t together) {
        return groups.slices * std::max(groups.alone, double(together) * groups.issue) + costs.ends;
    };
    double cycles = double(most / at_once) * turn(at_once) + double(most) * groups.store;
    if (most % at_once != 0) cycles += turn(most % at_once);
    cycles = std::max(cycles, groups.most_slices * groups.alone + costs.ends + groups.store);
    return splits == 1 ? cycles : cycles + cycles_of_sum(double(products.elements()), splits, facts);
}

double busy_cycles_of(const Products& products, const Tile& tile, unsigned splits, const SourceCosts& costs,
                      const DeviceFacts& facts) {
    const Groups groups = groups_of(products, tile, splits, costs);
    return double(groups.count) * (groups.slices * groups.issue + groups.store) / units_of(facts);
}

double cycles_of_stage(double floats, const DeviceFacts& facts) {
    return stage_cycles + bytes_cycles(floats * sizeof(float), facts);
}

double cycles_of_sum(double elements, unsigned parts, const DeviceFacts& facts) {
    const double rounds =
        double(ceil_div(parts, loads_at_once)) * std::ceil(elements / (resident_threads * units_of(facts)));
    return std::max(cycles_of_stage((parts + 1) * elements, facts), stage_cycles + rounds * load_cycles);
}

} // namespace towers
