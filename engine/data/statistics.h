#pragma once

#include "engine/data/source.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct BrokenRecord {
    std::uint32_t record;
    std::string problem;
};

/// Of all records that can be read.
struct DataStatistics {
    std::vector<std::size_t> counts;     ///< examples by class
    std::vector<double> mean, deviation; ///< of each channel's pixels, bytes being 0 to 1
    std::vector<BrokenRecord> broken;    ///< those that cannot be read
    /// How many labels an example has, if the data have label sets.
    struct LabelsEach {
        std::size_t least = 0, most = 0, all = 0;
        std::size_t without = 0; ///< examples without any
    };
    std::optional<LabelsEach> labels;
};

/// Reads every record.
DataStatistics statistics_of(const DataSource& data);

/// The source without records that cannot be read, which it names; reads every record to find them.
/// InputError if none is left.
std::unique_ptr<DataSource> without_broken(std::unique_ptr<DataSource> source);

} // namespace towers
