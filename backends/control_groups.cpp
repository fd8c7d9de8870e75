#include "backends/control_groups.h"

#include <fstream>

namespace towers {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& controllers, const std::string& name) {
    return (',' + controllers + ',').find(',' + name + ',') != std::string::npos;
}

} // namespace

std::vector<ControlGroup> control_groups(const fs::path& root, const std::string& controller) {
    std::vector<ControlGroup> all;
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) { // `4:cpu,cpuacct:/docker/1f0c`, `0::/user.slice`
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const int version = controllers.empty() ? 2 : 1;
        if (version == 1 && !has(controllers, controller)) continue;
        const fs::path mounted = root / "sys/fs/cgroup";
        std::vector<fs::path> mounts{mounted, mounted / "unified"};
        if (version == 1) mounts = {mounted / controller};
        if (version == 1 && controllers != controller) mounts.push_back(mounted / controllers);
        // In a container the path may be the host's, of which only the root is visible.
        for (const fs::path& mount : mounts)
            for (fs::path group = fs::path(line.substr(second + 1)).lexically_normal();;
                 group = group.parent_path()) {
                all.push_back({mount / group.relative_path(), version});
                if (!group.has_relative_path()) break;
            }
    }
    return all;
}

} // namespace towers
