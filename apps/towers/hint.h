// Commands that a message proposes, for the user to paste into a shell.
#pragma once

#include <string>
#include <vector>

namespace towers {

/// `towers` with these arguments, called as this program was, each word quoted where a shell needs it.
std::string hint(const std::vector<std::string>& arguments);

/// A path as an argument: with a dash in front it would look like a flag.
std::string path_argument(const std::string& path);

} // namespace towers
