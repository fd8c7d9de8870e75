// The settings of a training run, as flags and as a TOML file.
#pragma once

#include "apps/towers/common_flags.h"
#include "backends/backend.h"
#include "engine/inference/metric.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace towers {

/// The settings that --config accepts and that config.toml in a run directory keeps. The recipe supplies what
/// is not set; a resumed run supplies the seed.
struct TrainSettings {
    std::string recipe = "cifar10-tutorial";
    std::vector<std::string> set;           ///< changes to the recipe, each TABLE.KEY=VALUE
    std::string data = "shapes", test_data; ///< the latter empty: in `data`
    std::string format, hold_out, fold;     ///< empty: recognized; none; none
    bool skip_broken = false;
    std::string backend, towers, shares;
    std::optional<unsigned> batch, global_batch; ///< at most one of them is set
    std::optional<unsigned> micro_batch;
    std::optional<std::uint64_t> steps;
    std::optional<double> epochs;
    std::optional<double> lr;
    std::optional<std::uint64_t> seed;
    bool distort = true, shuffle = true;
    std::string init;
    std::vector<std::string> freeze; ///< patterns of variables' names
    std::uint64_t save_every = 1000;
    unsigned keep = 5;
    std::uint64_t eval_every = 0;
    bool eval_raw = false, eval_auc = false;
    std::string best_by; ///< a metric; empty: usual_metric() of examples with one label
    bool keep_best = false;
    std::uint64_t stop_early = 0;
    std::uint64_t log_every = 10;
    bool log_towers = false;
    std::uint64_t summary_every = 100;
    std::string on_device_loss = "continue";
    double device_timeout = default_timeout;
    unsigned threads = 0;
    bool exact_products = false;
    std::string precision; ///< empty: the recipe's
    bool round_operands = false;
    std::string wire = "fp32";
    std::string tune = "auto"; ///< or off, quick, full, or the path of a file with choices
    std::string feed = "auto";
    std::optional<unsigned> readers;
    std::string quirks = "none";
};

/// Settings some of which a command line or a file gives.
struct GivenSettings {
    TrainSettings values;
    std::set<std::string> names; ///< of those that are given, as in a file: `batch`

    bool gives(const std::string& name) const { return names.contains(name); }
};

/// Lets what is given replace the settings' own values. Clears what no longer holds then: the other way to
/// say the same, the shares of other towers, and the changes to another recipe.
void replace(TrainSettings& settings, const GivenSettings& given);

/// What the user asks for.
struct Given {
    GivenSettings file;  ///< that --config names; none if there is no such flag
    GivenSettings flags; ///< come first

    bool gives(const std::string& name) const { return file.gives(name) || flags.gives(name); }
};

/// By the file, then by the flags.
void replace(TrainSettings& settings, const Given& given);

/// Adds a flag for each setting.
void add_settings(CLI::App& command, TrainSettings& settings);

/// The names of the settings whose flags the parsed command line has.
std::set<std::string> given_settings(const CLI::App& command);

/// Reads the settings that the file names. Throws an InputError that says where the file is wrong.
GivenSettings read_settings(const std::filesystem::path& file);

/// The same for `text`, which comes from `source`.
GivenSettings parse_settings(const std::string& text, const std::string& source);

/// Throws UsageError if there is no such metric.
const Metric& best_by(const TrainSettings& settings);

/// Chooses usual_metric() where test passes are judged and the settings name no metric. UsageError if they
/// name one that does not fit the test examples.
void judge_by_labels(TrainSettings& settings, const Recipe& recipe, bool has_label_sets);

/// As the settings say.
PrecisionFlags precision_in(const TrainSettings& settings);

enum class Settings {
    all,
    of_training, ///< those that decide what a step computes
};

/// The settings as text that parse_settings() reads: `name = value` for each setting that is set.
std::string write_settings(const TrainSettings& settings, Settings which);

/// `NAME from VALUE to VALUE` for each training setting that differs, except those of the batch.
std::vector<std::string> changes_of_training(const TrainSettings& before, const TrainSettings& after);

} // namespace towers
