#pragma once

#include "engine/data/source.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

struct DataStatistics {
    std::vector<std::size_t> counts;     ///< examples by class
    std::vector<double> mean, deviation; ///< of each channel's pixels, bytes being 0 to 1
    std::vector<std::string> broken;     ///< what is wrong with each record that cannot be read
};

/// Reads every record.
DataStatistics statistics_of(const DataSource& data);

} // namespace towers
