// The control groups (cgroups) that limit this process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace towers {

struct ControlGroup {
    std::filesystem::path folder; ///< whether or not it exists
    int version;                  ///< 1 or 2, which name their files differently
};

/// The control groups of this process for a controller, such as `memory`, and the groups around them, which
/// limit it too. `root`: of the file system, in which /proc and /sys lie.
std::vector<ControlGroup> control_groups(const std::filesystem::path& root, const std::string& controller);

} // namespace towers
