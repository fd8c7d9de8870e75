#include "backends/cpu/quota.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

/// The first two numbers of a file: `max 100000` has none.
std::optional<double> ratio_in(const fs::path& file) {
    std::ifstream text(file);
    double quota = 0, period = 0;
    if (text >> quota >> period && quota > 0 && period > 0) return quota / period;
    return std::nullopt;
}

std::optional<double> number_in(const fs::path& file) {
    std::ifstream text(file);
    double number = 0;
    if (text >> number && number > 0) return number; // -1: no limit
    return std::nullopt;
}

std::optional<double> quota_of(const fs::path& group) {
    if (const auto quota = ratio_in(group / "cpu.max")) return quota;
    const auto quota = number_in(group / "cpu.cfs_quota_us");
    const auto period = number_in(group / "cpu.cfs_period_us");
    if (quota && period) return *quota / *period;
    return std::nullopt;
}

bool has(const std::string& controllers, const std::string& name) {
    return (',' + controllers + ',').find(',' + name + ',') != std::string::npos;
}

} // namespace

std::optional<double> processor_quota(const fs::path& root) {
    std::optional<double> least;
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) { // `4:cpu,cpuacct:/docker/1f0c`, `0::/user.slice`
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::vector<fs::path> mounts{root / "sys/fs/cgroup"};
        if (!controllers.empty()) {
            if (!has(controllers, "cpu")) continue;
            mounts = {root / "sys/fs/cgroup/cpu", root / "sys/fs/cgroup" / controllers};
        }
        // Enclosing groups limit the process too. In a container the path may be the host's, of which only
        // the root is visible.
        for (const fs::path& mount : mounts)
            for (fs::path group = fs::path(line.substr(second + 1)).lexically_normal();;
                 group = group.parent_path()) {
                if (const auto quota = quota_of(mount / group.relative_path()))
                    least = std::min(least.value_or(*quota), *quota);
                if (!group.has_relative_path()) break;
            }
    }
    return least;
}

unsigned threads_within(unsigned processors, std::optional<double> quota) {
    if (!quota || *quota >= processors) return processors;
    return unsigned(std::max(1.0, std::round(*quota)));
}

} // namespace towers
