// A run's test passes so far: which one was the best, and how many have come after it.
#pragma once

#include "engine/inference/metric.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace towers {

struct TestedStep {
    std::uint64_t step; ///< updates done
    MetricValues metrics;

    /// None if it is not known.
    std::optional<double> value(const Metric& metric) const;
};

class TestRecord {
public:
    /// Of the run's metrics, the passes after at most `last` updates; none if there is no such file. Ignores
    /// an incomplete last line. Throws InputError as read_shares().
    static TestRecord read(const std::filesystem::path& metrics, std::uint64_t last);

    /// Adds a later pass.
    void add(const TestedStep& pass) { passes_.push_back(pass); }

    /// The pass after this many updates, or null.
    const TestedStep* find(std::uint64_t step) const&;
    const TestedStep* find(std::uint64_t step) const&& = delete; ///< it would be gone
    /// The pass with the best value of the metric, the earliest of equal ones; null if none has a value.
    const TestedStep* best(const Metric& metric) const&;
    const TestedStep* best(const Metric& metric) const&& = delete; ///< likewise
    /// The passes after the best one; 0 if there is none.
    std::uint64_t since_best(const Metric& metric) const;

private:
    std::vector<TestedStep> passes_; ///< in the order of their steps
};

} // namespace towers
