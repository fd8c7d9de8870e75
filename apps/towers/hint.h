// Commands that a message suggests, for the user to paste into a shell.
#pragma once

#include <string>
#include <vector>

namespace towers {

/// `towers` with these arguments, under the name by which this program was called. Each word is quoted if a
/// shell needs that.
std::string hint(const std::vector<std::string>& arguments);

/// A path as an argument. Gets ./ in front if it starts with a dash, because it would look like a flag.
std::string path_argument(const std::string& path);

} // namespace towers
