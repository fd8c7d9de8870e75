// How much processor time the process's control groups allow.
#pragma once

#include <filesystem>
#include <optional>

namespace towers {

/// The smallest quota of this process's control group and the groups around it, in processors, such as 1.5
/// (`cpu.max` of version 2, `cpu.cfs_quota_us` of version 1). None if there is no limit or nothing can be
/// read. `root`: of the file system, in which /proc and /sys lie.
std::optional<double> processor_quota(const std::filesystem::path& root);

/// The number of threads for a process that may use so many processors: the quota rounded, at least 1.
unsigned threads_within(unsigned processors, std::optional<double> quota);

} // namespace towers
