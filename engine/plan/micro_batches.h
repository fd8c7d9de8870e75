// How a share that is too large to be computed at once is split into micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace towers {

/// Splits a share into as few micro-batches of at most `most` examples as possible, the larger ones first.
/// They are whole groups, and their sizes differ by one group at most. `share` and `most` hold a group at
/// least; `share` is a whole number of them.
std::vector<unsigned> micro_batches(unsigned share, unsigned group, unsigned most);

/// The size of the largest micro-batch when a share is split into so few that `needed` bytes fit into `room`:
/// the share when it fits as a whole, and a group when nothing fits. `needed(most)`: of a step in
/// micro-batches of at most that many examples, none when there cannot be such a step; not more for fewer.
unsigned largest_that_fits(unsigned share, unsigned group, std::uint64_t room,
                           const std::function<std::optional<std::uint64_t>(unsigned most)>& needed);

} // namespace towers
