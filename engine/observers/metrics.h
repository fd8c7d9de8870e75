// metrics.jsonl, a machine-readable log of a run's steps.
#pragma once

#include "engine/run/run_directory.h"
#include "engine/shares/shares.h"
#include "engine/train/observer.h"

#include <cstdint>
#include <string>

namespace towers {

/// Writes a line for each step that is due for the log, for each change of the towers' shares or
/// micro-batches, so that those of every step are known, and for each test pass. A line holds numbers that
/// the same run with the same shares and micro-batches repeats bit for bit.
class Metrics final : public Observer {
public:
    /// `records`: of the training data. Goes on from the shares that the run's metrics tell of; throws
    /// InputError when it cannot read them.
    Metrics(RunDirectory& run, std::uint64_t records);

    std::string place() const override { return run_.metrics_path().string(); }
    bool observe(const Progress& progress) override;
    bool tested(const TestReport& report) override;
    void sync() override { run_.sync_metrics(); }

private:
    RunDirectory& run_;
    std::uint64_t records_;
    SharesFrom written_{}; ///< what the last line with shares has
};

} // namespace towers
