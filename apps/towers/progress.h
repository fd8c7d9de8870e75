// Shows the progress of a run: one live line on a terminal, else the tutorial's log lines.
#pragma once

#include "engine/train/loop.h"

#include <chrono>
#include <cstdint>

namespace towers {

/// The longest line to print on the terminal. A line that fills it would wrap, and could not be overwritten.
std::size_t line_width();

/// `2026-11-21 10:00:00.000000`, as Python's datetime prints it. The tutorial's lines start with this.
std::string timestamp();

struct ProgressOptions {
    bool live;               ///< one line, updated in place
    bool log_towers;         ///< also each tower's own loss
    bool divided_batch_time; ///< Quirks::divided_batch_time
    std::uint64_t steps;
    std::size_t towers;
};

class ProgressPrinter {
public:
    explicit ProgressPrinter(const ProgressOptions& options) : options_(options) {}
    ~ProgressPrinter() { finish(); }

    void show(const Progress& progress);
    /// Ends the live line, so that what follows starts on a new line.
    void finish();

private:
    void show_live(const Progress& progress);
    void show_log(const Progress& progress);

    ProgressOptions options_;
    std::chrono::steady_clock::time_point last_{};
    std::size_t width_ = 0; ///< of the live line on the terminal
};

} // namespace towers
