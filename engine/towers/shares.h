// How a global batch is shared out among towers.
#pragma once

#include <string>
#include <vector>

namespace towers {

constexpr unsigned largest_global_batch = 1u << 20;

/// Examples per step of all towers together, when a tower takes `batch` on average. Throws UsageError when
/// that is too many.
unsigned global_batch(unsigned batch, std::size_t towers);

/// Splits `global` examples in the proportion of `weights` (equal when empty) into whole groups of `group`
/// examples that add up. Each tower gets at least one; what is left goes to the largest remainders, the first
/// tower first. Throws UsageError when the examples are no whole number of groups, there are fewer groups
/// than towers, or a weight for each tower is missing.
std::vector<unsigned> share_out(unsigned global, unsigned towers, std::vector<double> weights,
                                unsigned group = 1);

/// Reads `3:1` or `2:1:1`. Throws UsageError when a part is not a positive number.
std::vector<double> parse_shares(const std::string& text);

} // namespace towers
