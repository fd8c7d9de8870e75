#include "engine/plan/micro_batches.h"

#include "backends/arithmetic.h"

#include <algorithm>

namespace towers {

std::vector<unsigned> micro_batches(unsigned share, unsigned group, unsigned most) {
    const unsigned groups = share / group, count = unsigned(ceil_div(groups, most / group));
    std::vector<unsigned> sizes(count, groups / count * group);
    std::fill_n(sizes.begin(), groups % count, (groups / count + 1) * group);
    return sizes;
}

unsigned largest_that_fits(unsigned share, unsigned group, const std::function<bool(unsigned most)>& fits) {
    const unsigned groups = share / group;
    const auto largest = [&](unsigned count) { return unsigned(ceil_div(groups, count)) * group; };
    if (fits(share)) return share;
    unsigned too_few = 1, enough = groups;
    while (enough - too_few > 1) {
        const unsigned middle = too_few + (enough - too_few) / 2;
        (fits(largest(middle)) ? enough : too_few) = middle;
    }
    return largest(enough);
}

} // namespace towers
