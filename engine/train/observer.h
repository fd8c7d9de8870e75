// What follows a training: lines on a terminal, metrics.jsonl, and whatever else a run tells the world.
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

/// Follows a training; train() calls every member on its own thread. observe() and sync() may fail to write:
/// they throw InputError, std::system_error, std::bad_alloc or OutOfMemory, the training goes on, and they
/// keep what they could not write for their next call.
class Observer {
public:
    virtual ~Observer() = default;

    /// What messages call the place that it writes to, such as a file's path.
    virtual std::string place() const = 0;

    /// After each step. Returns whether it had anything to write.
    virtual bool observe(const Progress& progress) = 0;

    /// Before each checkpoint and at the end of the run, also of one that fails: brings to the disk what it
    /// has written.
    virtual void sync() {}

    /// One line for the user.
    virtual void warn([[maybe_unused]] const std::string& line) {}

    /// The run has ended or failed; nothing follows.
    virtual void end() {}
};

} // namespace towers
