#include "apps/towers/report_run.h"

#include "apps/towers/common_flags.h"
#include "backends/error.h"
#include "engine/files/text.h"
#include "engine/recipes/recipes.h"
#include "engine/run/json_lines.h"
#include "engine/run/read_metrics.h"
#include "engine/run/run_directory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>

namespace towers {
namespace {

constexpr std::size_t most_points = 1000; // of a curve: more would be closer than a page's pixels

/// How many of `count` lines make one point.
std::size_t lines_a_point(std::size_t count) {
    return std::max<std::size_t>(1, (count + most_points - 1) / most_points);
}

/// A number that may be null, as JSON has no NaN.
double number_of(const nlohmann::json& line, const char* key) {
    const nlohmann::json& value = line.at(key);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

double epochs(const nlohmann::json& line) { return line.at("epoch").get<double>(); }

Point mean_of(std::span<const Point> points) {
    Point mean = points.back();
    double sum = 0;
    std::size_t finite = 0;
    mean.least = std::numeric_limits<double>::infinity();
    mean.most = -mean.least;
    for (const Point& point : points) {
        if (!std::isfinite(point.loss)) continue;
        sum += point.loss;
        ++finite;
        mean.least = std::min(mean.least, point.loss);
        mean.most = std::max(mean.most, point.loss);
    }
    mean.loss = finite > 0 ? sum / double(finite) : std::numeric_limits<double>::quiet_NaN();
    return mean;
}

void read_metrics(ReportedRun& run) {
    const std::filesystem::path path = metrics_path_in(run.folder);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return;
    std::vector<Point> all;
    for_each_json_line(path, "metrics.jsonl", [&](const nlohmann::json& line, const auto& complain) {
        try {
            const auto step = line.at("step").get<std::uint64_t>();
            if (is_test_pass(line))
                run.tests.push_back({step, epochs(line), metrics_in(line)});
            else
                all.push_back({.step = step,
                               .loss = number_of(line, "loss"),
                               .learning_rate = number_of(line, "learning_rate"),
                               .epoch = epochs(line)});
        } catch (const nlohmann::json::exception&) {
            complain();
        }
    });
    run.logged = all.size();
    const std::size_t stride = lines_a_point(all.size());
    for (std::size_t i = 0; i < all.size(); i += stride)
        run.points.push_back(mean_of(std::span(all).subspan(i, std::min(stride, all.size() - i))));
}

/// Seconds of training until each timed step: the pauses between the run's parts do not count.
std::vector<double> elapsed(const TimesOfRun& times) {
    std::vector<bool> begins(times.steps.size(), false); // a part of the run
    for (const RunEvent& event : times.events)
        if (event.event == "resume" || event.event == "start") {
            const std::size_t next = event.line_before ? *event.line_before + 1 : 0;
            if (next < begins.size()) begins[next] = true;
        }
    std::vector<double> at;
    for (std::size_t i = 0; i < times.steps.size(); ++i) {
        const TimedStep& step = times.steps[i];
        const double since = i > 0 && !begins[i] ? step.time - times.steps[i - 1].time : step.seconds;
        at.push_back((i > 0 ? at.back() : 0) + std::max(0.0, since)); // a system's clock may be set back
    }
    return at;
}

nlohmann::json times_json(const ReportedRun& run) {
    nlohmann::json list = nlohmann::json::array();
    const std::vector<TimedStep>& steps = run.times.steps;
    const std::vector<double> at = elapsed(run.times);
    const std::size_t stride = lines_a_point(steps.size());
    for (std::size_t i = 0; i < steps.size(); i += stride) {
        const std::size_t end = std::min(i + stride, steps.size());
        const TimedStep& last = steps[end - 1];
        // A lost tower remains in the list, and a resumed run may have others: only lines with as many towers
        // as the last add up.
        std::vector<TowerSpan> towers(last.towers.size());
        double seconds = 0, averaging = 0, data = 0, slowest = 0;
        for (std::size_t j = i; j < end; ++j) {
            if (steps[j].towers.size() != towers.size()) continue;
            seconds += steps[j].seconds;
            averaging += steps[j].averaging;
            data += steps[j].data;
            slowest += steps[j].rate > 0 ? 1 / steps[j].rate : 0;
            for (std::size_t k = 0; k < towers.size(); ++k) {
                const TowerSpan& more = steps[j].towers[k];
                towers[k].examples += more.examples;
                towers[k].work += more.work;
                towers[k].compute += more.compute;
                towers[k].copies += more.copies;
                towers[k].others += more.others;
            }
        }
        nlohmann::json line{{"step", last.step},
                            {"elapsed", at[end - 1]},
                            {"rate", slowest > 0 ? double(end - i) / slowest : last.rate},
                            {"seconds", seconds},
                            {"averaging", averaging},
                            {"data", data},
                            {"towers", nlohmann::json::array()}};
        for (const TowerSpan& tower : towers)
            line["towers"].push_back({{"examples", tower.examples},
                                      {"work", tower.work},
                                      {"compute", tower.compute},
                                      {"copies", tower.copies},
                                      {"others", tower.others}});
        list.push_back(std::move(line));
    }
    return list;
}

nlohmann::json events_json(const ReportedRun& run) {
    nlohmann::json list = nlohmann::json::array();
    const std::vector<double> at = elapsed(run.times);
    for (std::size_t i = 0; i < run.times.events.size(); ++i) {
        const RunEvent& event = run.times.events[i];
        bool undone = false; // a later part of the run did these steps again
        for (std::size_t j = i + 1; j < run.times.events.size(); ++j)
            if (run.times.events[j].event == "resume" && run.times.events[j].step < event.step) undone = true;
        const std::size_t before = event.line_before.value_or(0);
        nlohmann::json line{
            {"event", event.event},   {"step", event.step},
            {"time", event.time},     {"elapsed", event.line_before && before < at.size() ? at[before] : 0.0},
            {"text", event.text},     {"lost", event.lost},
            {"shares", event.shares}, {"undone", undone}};
        list.push_back(std::move(line));
    }
    return list;
}

/// Each tower's device in the run's last part.
nlohmann::json towers_json(const ReportedRun& run) {
    nlohmann::json list = nlohmann::json::array();
    for (const RunEvent& event : run.times.events) {
        if (!event.towers.empty()) list = event.towers;
    }
    return list;
}

std::uint64_t steps_done(const ReportedRun& run) {
    std::uint64_t done = run.points.empty() ? 0 : run.points.back().step + 1;
    if (!run.times.events.empty()) done = std::max(done, run.times.events.back().step);
    if (!run.tests.empty()) done = std::max(done, run.tests.back().step);
    return done;
}

} // namespace

ReportedRun read_run(const std::string& folder) {
    namespace fs = std::filesystem;
    ReportedRun run;
    run.folder = folder;
    std::error_code error;
    if (!fs::is_directory(folder, error))
        throw InputError(fmt::format("there is no run directory {}; give the folder of a run, such as "
                                     "runs/first",
                                     folder));
    const fs::path config = config_path_in(folder);
    if (!fs::exists(config, error))
        throw InputError(fmt::format("{} holds no run: it has no {}; give the folder of a run", folder,
                                     config.filename().string()));
    fs::path name = fs::weakly_canonical(fs::absolute(folder), error);
    if (!name.has_filename()) name = name.parent_path();
    run.name = as_printable(name.filename().string());
    replace(run.settings, read_settings(config));
    const fs::path recipe = recipe_path_in(folder);
    try {
        run.recipe = fs::exists(recipe, error) ? read_recipe(recipe_name(run.settings.recipe), recipe)
                                               : recipe_with(run.settings.recipe, run.settings.set);
    } catch (const UsageError& mistake) { // in a file of the run, not in the command line
        throw InputError(mistake.what());
    }
    read_metrics(run);
    run.times = read_times(times_path_in(folder));
    return run;
}

nlohmann::json to_json(const ReportedRun& run) {
    nlohmann::json curves{{"step", nlohmann::json::array()},          {"loss", nlohmann::json::array()},
                          {"least", nlohmann::json::array()},         {"most", nlohmann::json::array()},
                          {"learning_rate", nlohmann::json::array()}, {"epoch", nlohmann::json::array()}};
    for (const Point& point : run.points) {
        curves["step"].push_back(point.step);
        curves["loss"].push_back(point.loss); // NaN becomes null
        curves["least"].push_back(point.least);
        curves["most"].push_back(point.most);
        curves["learning_rate"].push_back(point.learning_rate);
        curves["epoch"].push_back(point.epoch);
    }
    nlohmann::json tests = nlohmann::json::array();
    for (const TestPoint& test : run.tests)
        tests.push_back({{"step", test.step}, {"epoch", test.epoch}, {"metrics", test.metrics}});
    return {{"name", run.name},
            {"folder", as_utf8(run.folder)},
            {"recipe",
             {{"name", run.recipe.name},
              {"description", as_utf8(run.recipe.description)},
              {"text", as_utf8(run.recipe.text)}}},
            {"steps", run.settings.steps ? nlohmann::json(*run.settings.steps) : nlohmann::json()},
            {"steps_done", steps_done(run)},
            {"logged", run.logged},
            {"curves", std::move(curves)},
            {"tests", std::move(tests)},
            {"towers", towers_json(run)},
            {"times", times_json(run)},
            {"events", events_json(run)}};
}

} // namespace towers
