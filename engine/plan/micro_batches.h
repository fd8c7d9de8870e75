// How a share that is too large to be computed at once is split into micro-batches.
#pragma once

#include <functional>
#include <vector>

namespace towers {

/// Splits a share into as few micro-batches of at most `most` examples as possible, the larger ones first.
/// They are whole groups, and their sizes differ by one group at most. `share` and `most` hold a group at
/// least; `share` is a whole number of them.
std::vector<unsigned> micro_batches(unsigned share, unsigned group, unsigned most);

/// The size of the largest micro-batch when a share is split into as few as fit: the share when it fits as a
/// whole, and a group when nothing fits. `fits(most)`: whether a step in micro-batches of at most that many
/// examples does; then it does with fewer.
unsigned largest_that_fits(unsigned share, unsigned group, const std::function<bool(unsigned most)>& fits);

} // namespace towers
