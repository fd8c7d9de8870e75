// Divides a share that is too large to compute at once into micro-batches.
#pragma once

#include <functional>
#include <vector>

namespace towers {

/// Divides a share into as few micro-batches of at most `most` examples as possible, the larger ones first.
/// They are whole groups, and their sizes differ by at most one group. `share` and `most` are at least one
/// group, and `share` is whole groups.
std::vector<unsigned> micro_batches(unsigned share, unsigned group, unsigned most);

/// The size of the largest micro-batch if a share is divided into as few as fit: the whole share if it fits,
/// one group if nothing fits. `fits(most)`: whether a step with micro-batches of at most `most` examples
/// fits; it must then also fit with fewer.
unsigned largest_that_fits(unsigned share, unsigned group, const std::function<bool(unsigned most)>& fits);

} // namespace towers
