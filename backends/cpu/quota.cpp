#include "backends/cpu/quota.h"

#include "backends/control_groups.h"

#include <algorithm>
#include <cmath>
#include <fstream>

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

} // namespace

std::optional<double> processor_quota(const fs::path& root) {
    std::optional<double> least;
    for (const ControlGroup& group : control_groups(root, "cpu"))
        if (const auto quota = quota_of(group.folder)) least = std::min(least.value_or(*quota), *quota);
    return least;
}

unsigned threads_within(unsigned processors, std::optional<double> quota) {
    if (!quota || *quota >= processors) return processors;
    return unsigned(std::max(1.0, std::round(*quota)));
}

} // namespace towers
