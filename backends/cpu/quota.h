// How much of the processors the process's control groups let it use.
#pragma once

#include <filesystem>
#include <optional>

namespace towers {

/// In processors, such as 1.5: the least that a control group of this process or one around it allows
/// (`cpu.max` of version 2, `cpu.cfs_quota_us` of version 1). None where nothing is limited or nothing can be
/// read. `root`: of the file system, in which /proc and /sys lie.
std::optional<double> processor_quota(const std::filesystem::path& root);

/// The number of threads for a process that may use so many processors: the quota rounded, at least 1.
unsigned threads_within(unsigned processors, std::optional<double> quota);

} // namespace towers
