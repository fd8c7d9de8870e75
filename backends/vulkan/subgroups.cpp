#include "backends/vulkan/subgroups.h"

#include "backends/launch/tiles.h"

#include <algorithm>

namespace towers::vulkan {
namespace {

constexpr unsigned narrow = 32;

} // namespace

unsigned size_for_quads(const SubgroupSizes& sizes) {
    if (!sizes.on_request || sizes.mixed_dot_products) return 0;
    const unsigned size = std::clamp(narrow, sizes.least, sizes.most);
    const unsigned threads = std::ranges::max(quad_tiles, {}, &Tile::threads).threads;
    return size < sizes.usual && threads <= size * sizes.most_subgroups ? size : 0;
}

unsigned elements_for_quads(const SubgroupSizes& sizes) {
    return sizes.least < narrow || sizes.most > 2 * narrow ? 16 : 32;
}

unsigned elements_of_fragments(const SubgroupSizes& sizes) { return sizes.least < narrow ? 16 : 64; }

} // namespace towers::vulkan
