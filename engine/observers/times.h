// times.jsonl: a run's times, and what happened to it.
#pragma once

#include "engine/run/run_directory.h"
#include "engine/shares/device_record.h"
#include "engine/train/observer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Writes a line for each step that is due for the log, and for each event: the start or resumption of the
/// run, a tower whose device is lost, shares that change, other notices, and why the steps end. Unlike the
/// metrics, these lines are different each time.
class Times final : public Observer {
public:
    /// `resumes`: the run goes on from the trainer's step.
    Times(RunDirectory& run, const Trainer& trainer, bool resumes);

    std::string place() const override { return run_.times_path().string(); }
    bool observe(const Progress& progress) override;
    bool tested(const TestReport& report) override;
    bool steps_end(const StepsEnd& end) override;
    void sync() override { run_.sync_times(); }

private:
    bool append(std::vector<std::string> lines);
    std::vector<std::string> notice(std::uint64_t steps, const std::string& text,
                                    std::vector<unsigned> shares);
    std::string step_line(const Progress& progress);

    RunDirectory& run_;
    const Trainer& trainer_;
    std::string first_; ///< the line of the start; "": it has been handed over
    std::vector<bool> lost_;
    std::vector<unsigned> shares_;
    std::vector<TowerUse> use_; ///< until the last line of a step
    HostTimes host_;            ///< likewise
    double seconds_ = 0;        ///< likewise
};

/// A tower's work between two lines.
struct TowerSpan {
    std::uint64_t examples = 0;
    double work = 0, compute = 0, copies = 0, others = 0; ///< seconds; see TowerTimes
};

/// The steps up to a logged one.
struct TimedStep {
    std::uint64_t step = 0; ///< counted from 0
    double time = 0;        ///< seconds since 1970, when it had ended
    double rate = 0;        ///< examples per second, without test passes and saving
    double seconds = 0;     ///< of all steps since the line before
    double averaging = 0;   ///< part of `seconds`: the host adds up gradients and updates the state
    double data = 0;        ///< part of `seconds`: waiting for images
    std::vector<TowerSpan> towers;
};

/// Something that happened in a run.
struct RunEvent {
    /// start, resume, lost, shares, notice; and at the end finished, stopped, early, diverged or failed
    std::string event;
    std::uint64_t step = 0; ///< updates done
    double time = 0;        ///< seconds since 1970
    std::string text;
    std::vector<unsigned> lost;                    ///< towers
    std::vector<unsigned> shares;                  ///< each tower's, if they changed
    std::vector<DeviceRecord> towers;              ///< at a start
    std::optional<std::uint64_t> line_before = {}; ///< index of the last timed step in the file before it
};

struct TimesOfRun {
    std::vector<TimedStep> steps; ///< in the file's order
    std::vector<RunEvent> events;
};

/// Reads a run's times; none if there is no such file, as in a run of an early version. Ignores an incomplete
/// last line. Throws InputError if the file cannot be read or is not such a file.
TimesOfRun read_times(const std::filesystem::path& times);

} // namespace towers
