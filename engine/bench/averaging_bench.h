// Compares the speed of the averaging stage with memcpy().
#pragma once

#include "engine/bench/report.h"
#include "engine/towers/averaging.h"
#include "engine/train/recipe.h"

#include <memory>
#include <vector>

namespace towers {

/// Averages the gradients of `towers` towers with `threads` threads, in turn with as many threads that move
/// as many bytes by memcpy().
class AveragingBench {
public:
    AveragingBench(const Recipe& recipe, unsigned towers, unsigned threads);

    void repeat();
    void reset();

    AveragingFigures figures() const;

private:
    unsigned rounds() const;
    double moved_bytes() const { return (towers_ + 1.0) * double(bytes_); } ///< all read, the mean written
    double average_seconds();
    double memcpy_seconds();

    unsigned towers_, threads_;
    StateLayout layout_;
    std::size_t bytes_;
    std::unique_ptr<Device> memory_; ///< gives the buffers, and outlives them
    std::vector<Buffer> gradients_;
    Buffer source_, target_; ///< of memcpy()
    std::unique_ptr<AveragingStage> stage_;
    std::vector<double> gb_per_s_, memcpy_gb_per_s_, ratio_; ///< one per repetition
};

} // namespace towers
