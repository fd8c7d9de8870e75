// The settings of a training run, as flags and as a TOML file.
#pragma once

#include "backends/backend.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace towers {

struct Recipe;

/// The settings that --config accepts and that config.toml in a run directory keeps. The recipe supplies what
/// is not set; a resumed run supplies the seed.
struct TrainSettings {
    std::string recipe = "cifar10-tutorial";
    std::vector<std::string> set; ///< changes to the recipe, each TABLE.KEY=VALUE
    std::string data = "shapes";
    std::string backend, towers, shares;
    std::optional<unsigned> batch, global_batch; ///< at most one of them is set
    std::optional<unsigned> micro_batch;
    std::optional<std::uint64_t> steps;
    std::optional<double> epochs;
    std::optional<double> lr;
    std::optional<std::uint64_t> seed;
    bool distort = true, shuffle = true;
    std::string init;
    std::uint64_t save_every = 1000;
    unsigned keep = 5;
    std::uint64_t log_every = 10;
    bool log_towers = false;
    std::string on_device_loss = "continue";
    double device_timeout = 60;
    unsigned threads = 0;
    std::string quirks = "none";
};

/// Adds a flag for each setting.
void add_settings(CLI::App& command, TrainSettings& settings);

/// Takes the settings that the file names. Throws an InputError that says where the file is wrong.
void read_settings(const std::filesystem::path& file, TrainSettings& settings);

/// Takes the settings in `text`, which comes from `source`.
void parse_settings(const std::string& text, const std::string& source, TrainSettings& settings);

/// Applies the command line's settings again, over what a file has set since.
void override_settings(CLI::App& command, TrainSettings& settings);

enum class Settings {
    all,
    of_training, ///< those that decide what a step computes
};

/// The settings in the form that read_settings() reads: `name = value` for each setting that is set.
std::string write_settings(const TrainSettings& settings, Settings which);

/// `NAME from VALUE to VALUE` for each setting of training that differs, except those of the batch.
std::vector<std::string> changes_of_training(const TrainSettings& before, const TrainSettings& after);

/// The stream for what people read: standard output, or standard error if one of these files, which the
/// command writes, is standard output.
std::FILE* text_stream(std::initializer_list<std::string> files);

extern const char* const recipe_help; ///< what --recipe takes

/// Adds --set, for changes to the recipe, to a command that does not use add_settings().
CLI::Option* add_set(CLI::App& command, std::vector<std::string>& changes);

/// find_recipe(), which says what the changes take out.
Recipe recipe_with(const std::string& name, const std::vector<std::string>& changes);

/// Adds --threads, for the CPU backend, to a command that does not use add_settings().
void add_threads(CLI::App& command, unsigned& threads);

/// Throws UsageError if there are too many; warns if OpenMP gives fewer.
void check_threads(unsigned threads);

/// Adds the flags for opening devices. They are not among a run's settings.
void add_validate(CLI::App& command, OpenOptions& options);

} // namespace towers
