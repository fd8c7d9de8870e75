// Suggestions for misspelt words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// The name nearest to a misspelt word, at most two edits and less than half of its letters away; else one
/// that is a part of the word, or of which the word is a part; empty if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

} // namespace towers
