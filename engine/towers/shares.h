// How a global batch is shared out among towers.
#pragma once

#include <string>
#include <vector>

namespace towers {

constexpr unsigned largest_global_batch = 1u << 20;

/// Examples a step of all towers together, when a tower takes `batch` in the mean. Throws UsageError when
/// that is too much.
unsigned global_batch(unsigned batch, std::size_t towers);

/// Splits `global` examples in the proportion of `weights` (even when empty), each tower getting at least
/// one: whole numbers that add up, what is left over going to the largest remainders, the first tower first.
/// Throws UsageError when there are fewer examples than towers or a weight for each tower is missing.
std::vector<unsigned> share_out(unsigned global, unsigned towers, std::vector<double> weights);

/// Reads `3:1` or `2:1:1`. Throws UsageError when a part is not a positive number.
std::vector<double> parse_shares(const std::string& text);

} // namespace towers
