// The settings of a training run, as flags and as a TOML file.
#pragma once

#include "backends/backend.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace towers {

/// What --config accepts and config.toml in a run directory keeps. What is not set follows from the recipe;
/// the seed from the run that goes on.
struct TrainSettings {
    std::string recipe = "cifar10-tutorial";
    std::string data = "shapes";
    std::string backend, towers, shares;
    std::optional<unsigned> batch;
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
    unsigned threads = 0;
    std::string quirks = "none";
};

/// Adds a flag for each setting.
void add_settings(CLI::App& command, TrainSettings& settings);

/// Takes the settings that the file names. Throws InputError that says where the file is wrong.
void read_settings(const std::filesystem::path& file, TrainSettings& settings);

/// Takes again what the command line said, over what a file has said since.
void override_settings(CLI::App& command, TrainSettings& settings);

/// As read_settings() reads it.
std::string write_settings(const TrainSettings& settings);

/// Adds --threads, of the CPU backend, to a command that has no add_settings().
void add_threads(CLI::App& command, unsigned& threads);

/// Throws UsageError when there are too many.
void check_threads(unsigned threads);

/// Adds the flags with which devices are opened; they are no part of a run's settings.
void add_validate(CLI::App& command, OpenOptions& options);

} // namespace towers
