// The control groups (cgroups) that limit this process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace towers {

/// The folders, whether or not they exist, that tell the limits of this process's control groups for a
/// controller, such as `memory`, and of the groups around them, which limit it too. `root`: of the file
/// system, in which /proc and /sys lie.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                  const std::string& controller);

} // namespace towers
