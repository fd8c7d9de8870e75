// What somebody may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// The name that a misspelt word is nearest to: at most two letters and less than half of the word away.
/// Empty if none is.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

} // namespace towers
