// Times copies between staging and device memory, and empty submissions.
#pragma once

#include "backends/device.h"
#include "engine/bench/report.h"

#include <vector>

namespace towers {

class CopyBench {
public:
    /// Copies these sizes, in bytes, in both directions. The device must outlive this.
    CopyBench(Device& device, const std::vector<std::size_t>& sizes);

    /// One repetition: the medians over several copies of each size and direction.
    void repeat();
    void reset();

    std::vector<CopyFigures> figures() const;

private:
    struct Case {
        std::string direction;
        std::size_t bytes;
        Recording recording;
        std::vector<double> gb_per_s, device_gb_per_s; ///< one per repetition
    };

    Device& device_;
    Buffer staging_, there_;
    std::vector<Case> cases_;
};

/// The cost of a single tower's step without its commands: submits an empty recording and waits for it.
class EmptyStepBench {
public:
    explicit EmptyStepBench(Device& device) : device_(device), recording_(device.record({})) {}

    void repeat();
    void reset() { us_.clear(); }
    Spread us() const { return spread_of(us_); }

private:
    Device& device_;
    Recording recording_;
    std::vector<double> us_; ///< one per repetition
};

} // namespace towers
