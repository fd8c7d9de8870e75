// Shows the progress of a run: one live line on a terminal, else the tutorial's log lines.
#pragma once

#include "engine/train/observer.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

namespace towers {

/// The longest line to print on the terminal. A line that fills it would wrap, and could not be overwritten.
std::size_t line_width();

/// Updates one line in place on a terminal; prints nothing elsewhere. Empty: removes the line.
void show_progress(const std::string& what);

/// `2026-11-21 10:00:00.000000`, as Python's datetime prints it. The tutorial's lines start with this.
std::string timestamp();

/// Prints while a run lasts. Where standard output fails (a full disk, a closed pipe or terminal), that costs
/// its lines and not the training.
template<class Print>
void try_to(const Print& print) {
    try {
        print();
    } catch (const std::system_error&) {
    }
}

struct ProgressOptions {
    bool live;               ///< one line, updated in place
    bool log_towers;         ///< also each tower's own loss
    bool divided_batch_time; ///< Quirks::divided_batch_time
    std::uint64_t steps;
    const Metric* best_by; ///< shown of test passes, too
};

/// Shows the steps on standard output, warnings in the log, and a table of the towers at the end and whenever
/// the program gets SIGUSR1.
class Terminal final : public Observer {
public:
    Terminal(const Trainer& trainer, const ProgressOptions& options);
    ~Terminal() override { finish(); }

    std::string place() const override { return "standard output"; }
    bool observe(const Progress& progress) override;
    bool tested(const TestReport& report) override;
    void warn(const std::string& line) override;
    void end() override;

    /// Ends the live line, so that what follows starts on a new line.
    void finish();

private:
    void show(const Progress& progress);
    void show_live(const Progress& progress);
    void draw(const Progress& progress); ///< the live line
    void show_log(const Progress& progress);
    void show_test(const TestReport& report);
    void show_notice(std::uint64_t step, const std::string& notice);
    void show_table();

    const Trainer& trainer_;
    ProgressOptions options_;
    std::chrono::steady_clock::time_point drawn_{}; ///< the live line
    std::size_t width_ = 0;                         ///< of the live line on the terminal
    std::optional<Progress> last_;                  ///< that it was told of
    std::optional<double> tested_;                  ///< usual_metric() of the last test pass
};

} // namespace towers
