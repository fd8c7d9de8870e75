// What a report says of one run.
#pragma once

#include "apps/towers/settings.h"
#include "engine/observers/times.h"
#include "engine/recipes/recipe.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace towers {

/// A logged step, or several one after another in a long run.
struct Point {
    std::uint64_t step = 0; ///< of the last one
    double loss = 0;        ///< mean; NaN if none is finite
    double least = 0, most = 0;
    double learning_rate = 0, epoch = 0;
};

struct TestPoint {
    std::uint64_t step;
    double epoch;
    MetricValues metrics;
};

/// A run's folder, read without its lock: the run may go on.
struct ReportedRun {
    std::string folder, name; ///< as the user gave it; its last part
    TrainSettings settings;
    Recipe recipe;
    std::vector<Point> points;
    std::vector<TestPoint> tests;
    std::uint64_t logged = 0; ///< steps in the metrics
    TimesOfRun times;
};

/// Throws InputError if the folder holds no run, or one of its files cannot be read.
ReportedRun read_run(const std::string& folder);

/// The run as the page's script takes it, without its network and its predictions.
nlohmann::json to_json(const ReportedRun& run);

} // namespace towers
