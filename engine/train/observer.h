// Observers of a training: lines on a terminal, metrics.jsonl, and other outputs of a run.
#pragma once

#include "engine/train/trainer.h"

#include <string>

namespace towers {

struct Progress {
    StepReport report;
    bool log;                   ///< this step is due for the log
    double examples_per_second; ///< since the last line of the log
    double seconds_per_step;
};

/// Why the steps of a run end here.
struct StepsEnd {
    enum class How { finished, stopped, early, diverged, failed } how;
    std::uint64_t step; ///< updates done
    std::string why;    ///< of what diverged or failed
};

/// Observes a training. train() calls all members on the thread that called it. If observe() or sync() cannot
/// write, they throw InputError, std::system_error, std::bad_alloc or OutOfMemory and keep the data for their
/// next call; the training continues.
class Observer {
public:
    virtual ~Observer() = default;

    /// The name of the output in messages, such as a file's path.
    virtual std::string place() const = 0;

    /// Whether observe() reads the trainer's state after so many steps in all. Then no step is in flight.
    virtual bool needs_state([[maybe_unused]] std::uint64_t steps) const { return false; }

    /// After each step. Returns whether it had anything to write.
    virtual bool observe(const Progress& progress) = 0;

    /// After each test pass, likewise.
    virtual bool tested([[maybe_unused]] const TestReport& report) { return false; }

    /// After the last step, before the last sync(), likewise.
    virtual bool steps_end([[maybe_unused]] const StepsEnd& end) { return false; }

    /// Syncs the output to the disk. Called before each checkpoint and at the end of the run, even if it
    /// fails.
    virtual void sync() {}

    /// Shows one line to the user.
    virtual void warn([[maybe_unused]] const std::string& line) {}

    /// Called last, when the run has ended or failed. Must not throw.
    virtual void end() {}
};

} // namespace towers
