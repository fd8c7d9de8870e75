#include "engine/observers/times.h"

#include "backends/error.h"
#include "engine/files/text.h"
#include "engine/run/json_lines.h"

#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace towers {
namespace {

double now() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    // Milliseconds: more digits would only make the file longer.
    return double(std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count()) / 1000;
}

/// Microseconds are exact enough.
double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

const char* name_of(StepsEnd::How how) {
    switch (how) {
    case StepsEnd::How::finished:
        return "finished";
    case StepsEnd::How::stopped:
        return "stopped";
    case StepsEnd::How::early:
        return "early";
    case StepsEnd::How::diverged:
        return "diverged";
    case StepsEnd::How::failed:
        break;
    }
    return "failed";
}

nlohmann::json event_line(const char* event, std::uint64_t steps, const std::string& text) {
    nlohmann::json line{{"event", event}, {"step", steps}, {"time", now()}};
    if (!text.empty()) line["text"] = as_utf8(text);
    return line;
}

} // namespace

Times::Times(RunDirectory& run, const Trainer& trainer, bool resumes)
    : run_(run), trainer_(trainer), shares_(trainer.shares()), use_(trainer.use()), host_(trainer.host_use()),
      seconds_(trainer.seconds()) {
    nlohmann::json line = event_line(resumes ? "resume" : "start", trainer.steps_done(), "");
    for (std::size_t i = 0; i < trainer.tower_count(); ++i) {
        line["towers"].push_back(record_of(trainer.facts(i).info));
        lost_.push_back(trainer.has_lost(i));
    }
    line["shares"] = shares_;
    line["precision"] = name_of(trainer.options().open.precision);
    first_ = line.dump();
}

bool Times::observe(const Progress& progress) {
    const StepReport& report = progress.report;
    std::vector<std::string> lines = notice(report.step + 1, report.notice, report.shares);
    if (progress.log) lines.push_back(step_line(progress));
    return append(std::move(lines));
}

bool Times::tested(const TestReport& report) {
    return append(notice(report.step, report.notice, trainer_.last_shares()));
}

bool Times::steps_end(const StepsEnd& end) {
    return append({event_line(name_of(end.how), end.step, end.why).dump()});
}

/// Writes the lines, after the first one, all at once: a failure to write then loses none of them.
bool Times::append(std::vector<std::string> lines) {
    // Not in the constructor, where writing may not fail.
    if (!first_.empty()) lines.insert(lines.begin(), std::exchange(first_, ""));
    if (lines.empty()) return false;
    run_.append_times(fmt::format("{}", fmt::join(lines, "\n")));
    return true;
}

/// A line if there is something to say after so many steps, else none.
std::vector<std::string> Times::notice(std::uint64_t steps, const std::string& text,
                                       std::vector<unsigned> shares) {
    std::vector<std::size_t> lost;
    for (std::size_t i = 0; i < lost_.size(); ++i)
        if (trainer_.has_lost(i) && !lost_[i]) lost.push_back(i);
    const bool changed = shares != shares_;
    if (text.empty() && lost.empty() && !changed) return {};
    nlohmann::json line = event_line(!lost.empty() ? "lost" : changed ? "shares" : "notice", steps, text);
    if (!lost.empty()) line["lost"] = lost;
    if (changed) line["shares"] = shares;
    for (const std::size_t tower : lost) lost_[tower] = true;
    shares_ = std::move(shares);
    return {line.dump()};
}

std::string Times::step_line(const Progress& progress) {
    nlohmann::json line{{"step", progress.report.step},
                        {"time", now()},
                        {"rate", std::round(progress.examples_per_second * 1e3) / 1e3},
                        {"seconds", rounded(trainer_.seconds() - seconds_)},
                        {"averaging", rounded(trainer_.host_use().averaging - host_.averaging)},
                        {"data", rounded(trainer_.host_use().data - host_.data)}};
    for (std::size_t i = 0; i < use_.size(); ++i) {
        const TowerUse &now = trainer_.use()[i], &before = use_[i];
        line["towers"].push_back({{"examples", now.examples - before.examples},
                                  {"work", rounded(now.times.work - before.times.work)},
                                  {"compute", rounded(now.times.compute - before.times.compute)},
                                  {"copies", rounded(now.times.copies - before.times.copies)},
                                  {"others", rounded(now.times.others - before.times.others)}});
    }
    use_ = trainer_.use();
    host_ = trainer_.host_use();
    seconds_ = trainer_.seconds();
    return line.dump();
}

namespace {

TimedStep timed_step(const nlohmann::json& line) {
    TimedStep step{.step = line.at("step").get<std::uint64_t>(),
                   .time = line.at("time").get<double>(),
                   .rate = line.at("rate").get<double>(),
                   .seconds = line.at("seconds").get<double>(),
                   .averaging = line.at("averaging").get<double>(),
                   .data = line.at("data").get<double>(),
                   .towers = {}};
    for (const nlohmann::json& tower : line.at("towers"))
        step.towers.push_back({.examples = tower.at("examples").get<std::uint64_t>(),
                               .work = tower.at("work").get<double>(),
                               .compute = tower.at("compute").get<double>(),
                               .copies = tower.at("copies").get<double>(),
                               .others = tower.at("others").get<double>()});
    return step;
}

RunEvent run_event(const nlohmann::json& line) {
    RunEvent event{.event = line.at("event").get<std::string>(),
                   .step = line.at("step").get<std::uint64_t>(),
                   .time = line.at("time").get<double>(),
                   .text = line.value("text", ""),
                   .lost = line.value("lost", std::vector<unsigned>()),
                   .shares = line.value("shares", std::vector<unsigned>()),
                   .towers = {}};
    if (line.contains("towers")) line.at("towers").get_to(event.towers);
    return event;
}

} // namespace

TimesOfRun read_times(const std::filesystem::path& times) {
    TimesOfRun found;
    std::error_code error;
    if (!std::filesystem::exists(times, error)) return found;
    for_each_json_line(times, "times.jsonl", [&](const nlohmann::json& line, const auto& complain) {
        try {
            if (line.contains("event")) {
                found.events.push_back(run_event(line));
                if (!found.steps.empty()) found.events.back().line_before = found.steps.size() - 1;
            } else {
                found.steps.push_back(timed_step(line));
            }
        } catch (const nlohmann::json::exception&) {
            complain();
        } catch (const InputError&) {
            complain();
        }
    });
    return found;
}

} // namespace towers
