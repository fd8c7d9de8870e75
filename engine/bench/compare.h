// Compares a report with an earlier one.
#pragma once

#include "backends/device.h"
#include "engine/bench/report.h"

#include <string>
#include <vector>

namespace towers {

/// A rate in both reports.
struct RateComparison {
    std::string what;           ///< a device's id, or `together`
    double before = 0, now = 0; ///< examples/s
    double ratio() const { return now / before; }
};

/// A kernel in both reports, for information.
struct KernelComparison {
    std::string device, name;
    double before_us = 0, now_us = 0;
};

struct BenchComparison {
    std::vector<RateComparison> rates; ///< of devices with equal id and name in both
    std::vector<KernelComparison> kernels;
    std::vector<std::string> missing; ///< devices that only the earlier report has

    /// The rates that fell by more than this fraction.
    std::vector<RateComparison> slower(double tolerance) const;
};

/// Throws InputError if the new report would not be comparable: another recipe, batch or number of threads;
/// validation in only one of them; no device with equal id and name, or with `whole`, a device of `before`
/// missing. Messages call the earlier report `source`.
void check_comparable(const BenchSettings& settings, const std::vector<DeviceInfo>& devices,
                      const BenchReport& before, const std::string& source, bool whole);

/// Compares reports that check_comparable() accepts.
BenchComparison compare(const BenchReport& now, const BenchReport& before);

} // namespace towers
