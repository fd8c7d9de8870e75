#include "apps/towers/progress.h"

#include "apps/towers/tower_table.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <limits>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace towers {
namespace {

std::string duration(double seconds) {
    const auto whole = std::uint64_t(std::max(0.0, std::round(seconds)));
    if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
    if (whole >= 60) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    return fmt::format("{} s", whole);
}

std::string tower_losses(const StepReport& report) {
    std::string text;
    for (std::size_t i = 0; i < report.tower_losses.size(); ++i)
        text += fmt::format("{}tower_{} {}", i == 0 ? "" : ", ", i,
                            report.shares[i] == 0 ? "idle"
                                                  : fmt::format("loss = {:.2f}", report.tower_losses[i]));
    return text;
}

struct Part {
    std::string text;
    int rank; ///< the part with the highest rank is dropped first
};

/// Joins as many of the parts as fit, in this order.
std::string fit(std::vector<Part> parts, std::size_t width) {
    std::string line;
    do {
        line.clear();
        for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
        if (line.size() > width) parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
    } while (line.size() > width);
    return line;
}

/// usual_metric() of a test pass, as the tutorial calls it.
struct ShownMetric {
    const Metric& metric;
    std::string text;
    double value;
};

ShownMetric shown_of(const TestReport& report) {
    if (report.metrics.contains("accuracy"))
        return {usual_metric(false), "precision @ 1", report.evaluation.accuracy()};
    const Metric& metric = usual_metric(true); // those that have diverged lack all
    const auto found = report.metrics.find(metric.name);
    return {metric, metric.text,
            found != report.metrics.end() ? found->second : std::numeric_limits<double>::quiet_NaN()};
}

std::atomic<bool> table_requested = false;

} // namespace

std::size_t line_width() {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return (known ? size.ws_col : 80u) - 1;
}

void show_progress(const std::string& what) {
    if (isatty(STDOUT_FILENO) == 0) return;
    std::string line = what;
    while (line.size() > line_width()) { // the last part is dropped first
        const std::size_t end = std::max(line.rfind(": ") + 1, line.rfind(", ") + 1);
        line.resize(end == 0 ? 0 : end - 1);
    }
    fmt::print("\r\033[K{}", line);
    std::fflush(stdout);
}

std::string timestamp() {
    const auto now = std::chrono::system_clock::now();
    const auto second = std::chrono::floor<std::chrono::seconds>(now); // also before 1970
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now - second);
    return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06}",
                       fmt::localtime(std::chrono::system_clock::to_time_t(second)), micros.count());
}

Terminal::Terminal(const Trainer& trainer, const ProgressOptions& options)
    : trainer_(trainer), options_(options) {
    std::signal(SIGUSR1, [](int) { table_requested = true; });
}

bool Terminal::observe(const Progress& progress) {
    last_ = progress;
    try_to([&] {
        show(progress);
        if (table_requested.exchange(false)) show_table();
    });
    return true;
}

bool Terminal::tested(const TestReport& report) {
    tested_ = shown_of(report).value;
    try_to([&] {
        if (!options_.live)
            show_test(report);
        else if (last_)
            draw(*last_);
        show_notice(report.step, report.notice);
    });
    return true;
}

void Terminal::warn(const std::string& line) {
    finish();
    spdlog::warn("{}", line);
}

void Terminal::end() {
    try_to([&] { trainer_.tower_count() > 1 ? show_table() : finish(); });
}

void Terminal::show_table() {
    finish();
    fmt::print("{}", tower_table(trainer_));
    std::fflush(stdout);
}

void Terminal::show(const Progress& progress) {
    if (options_.live)
        show_live(progress);
    else if (progress.log)
        show_log(progress);
    show_notice(progress.report.step, progress.report.notice);
}

void Terminal::show_notice(std::uint64_t step, const std::string& notice) {
    if (notice.empty()) return;
    finish();
    fmt::print("{}: step {}, {}\n", timestamp(), step, notice);
    std::fflush(stdout);
}

void Terminal::show_test(const TestReport& report) {
    const auto& [metric, text, value] = shown_of(report);
    const Metric& by = *options_.best_by;
    const auto found = report.metrics.find(by.name);
    const bool is_shown = &by == &metric || by.name == "cross_entropy" || found == report.metrics.end();
    const std::string judged = is_shown ? "" : fmt::format(", {} {:.3f}", by.text, found->second);
    fmt::print("{}: step {}, test {} = {:.3f}{}, cross entropy {:.3f}{}\n", timestamp(), report.step, text,
               value, judged, report.evaluation.cross_entropy(),
               last_ ? fmt::format(" (train loss {:.2f})", last_->report.loss) : "");
    std::fflush(stdout);
}

void Terminal::show_log(const Progress& progress) {
    const double seconds =
        progress.seconds_per_step / (options_.divided_batch_time ? double(trainer_.tower_count()) : 1.0);
    fmt::print("{}: step {}, loss = {:.2f} ({:.1f} examples/sec; {:.3f} sec/batch)\n", timestamp(),
               progress.report.step, progress.report.loss, progress.examples_per_second, seconds);
    if (options_.log_towers)
        fmt::print("{}: step {}, {}\n", timestamp(), progress.report.step, tower_losses(progress.report));
    std::fflush(stdout);
}

void Terminal::show_live(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const bool last_step = progress.report.step + 1 == options_.steps;
    if (now - drawn_ < std::chrono::milliseconds(100) && !last_step) return;
    drawn_ = now;
    draw(progress);
}

void Terminal::draw(const Progress& progress) {
    const double left = double(options_.steps - progress.report.step - 1) * progress.seconds_per_step;
    std::vector<Part> parts{{fmt::format("step {}/{}", progress.report.step + 1, options_.steps), 0},
                            {fmt::format("{:.1f} examples/s", progress.examples_per_second), 4},
                            {fmt::format("loss {:.3f}", progress.report.loss), 1},
                            {fmt::format("lr {:g}", progress.report.learning_rate), 5},
                            {fmt::format("{} left", duration(left)), 3}};
    if (tested_) parts.insert(parts.begin() + 3, {fmt::format("test {:.3f}", *tested_), 2});
    if (options_.log_towers) parts.push_back({tower_losses(progress.report), 6});
    const std::size_t most = line_width();
    const std::string line = fit(std::move(parts), most);
    fmt::print("\r{:<{}}", line, std::min(width_, most)); // blanks overwrite the rest of the earlier line
    width_ = line.size();
    std::fflush(stdout);
}

void Terminal::finish() {
    if (std::exchange(width_, 0) != 0) std::fputc('\n', stdout); // fmt would throw, also in the destructor
    std::fflush(stdout);
}

} // namespace towers
