// Compares the speed of the host reducer with memcpy().
#pragma once

#include "backends/worker.h"
#include "engine/bench/report.h"
#include "engine/recipes/recipe.h"
#include "engine/reduce/host_reducer.h"

#include <functional>
#include <memory>
#include <vector>

namespace towers {

/// Runs the host reducer of `towers` towers with `threads` threads. In turn with it, as many threads move
/// as many bytes by memcpy().
class AveragingBench {
public:
    AveragingBench(const Recipe& recipe, unsigned towers, unsigned threads);

    /// Calls `prepare` before each step and each memcpy(), untimed.
    void repeat(const std::function<void()>& prepare = [] {});
    void reset();

    AveragingFigures figures() const;

private:
    /// A step reads the gradients, reads and writes the state, and writes the parameters.
    double moved_bytes() const;
    void step();
    void copy();

    unsigned towers_;
    StateLayout layout_;
    std::vector<ArenaRange> buckets_;
    std::unique_ptr<Device> memory_;             ///< allocates the buffers, so it outlives them
    std::vector<Buffer> gradients_, parameters_; ///< by tower
    Buffer source_, target_;                     ///< of memcpy()
    std::unique_ptr<HostReducer> reducer_;
    std::vector<double> gb_per_s_, memcpy_gb_per_s_, ratio_; ///< one per repetition
    std::vector<std::unique_ptr<Worker>> copiers_;           // last: they use the others
};

} // namespace towers
