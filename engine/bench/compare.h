// Compares a report with an earlier one.
#pragma once

#include "backends/device.h"
#include "engine/bench/report.h"

#include <string>
#include <vector>

namespace towers {

/// A rate that both reports have.
struct RateComparison {
    std::string what;           ///< a device's id, or `together`
    double before = 0, now = 0; ///< examples/s
    double ratio() const { return now / before; }
};

/// A kernel that both have, for information.
struct KernelComparison {
    std::string device, name;
    double before_us = 0, now_us = 0;
};

struct BenchComparison {
    std::vector<RateComparison> rates; ///< of the devices that have the same id and name in both
    std::vector<KernelComparison> kernels;
    std::vector<std::string> missing; ///< what only the earlier report has

    /// Those that are slower by more than this fraction.
    std::vector<RateComparison> slower(double tolerance) const;
};

/// Throws InputError when the new report would not be comparable: another recipe, batch or number of threads,
/// only one of them under validation, no device of the same id and name or, if `whole`, not all of the
/// devices in `before`. `source` is what messages call the earlier report.
void check_comparable(const BenchSettings& settings, const std::vector<DeviceInfo>& devices,
                      const BenchReport& before, const std::string& source, bool whole);

/// Of reports that check_comparable() accepts.
BenchComparison compare(const BenchReport& now, const BenchReport& before);

} // namespace towers
