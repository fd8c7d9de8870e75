// What commands that use a trained model need of its checkpoint.
#pragma once

#include "apps/towers/settings.h"
#include "engine/recipes/recipe.h"
#include "engine/run/safetensors.h"
#include "engine/train/checkpoint.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace towers {

/// Adds RUN|CHECKPOINT, with the words of `help`. It may also be given as --run or as --checkpoint.
CLI::Option* add_model(CLI::App& command, std::string& model, const std::string& help);

/// Throws UsageError if none is given. (If CLI11 required it, it would say so twice in the help.)
void check_model(const std::string& model);

/// Whether the `model` that a command line names is a run's folder, which may not be there yet, and not a
/// file.
bool is_run(const std::string& model);

/// The latest checkpoint of a run, or the checkpoint file. If a run's is damaged, the message names a sound
/// one.
FoundCheckpoint read_model(const std::string& model);

/// read_latest_checkpoint(). If the checkpoint is damaged, the message names a sound one.
void read_latest(const std::string& run, const std::function<void(const std::filesystem::path&)>& read);

/// The settings in a checkpoint's metadata, else those of its `model` if that is a run's folder (an early
/// version's). `recipe` and `set` replace them if they are given. `data` is empty if nothing names the data.
TrainSettings settings_of_checkpoint(const FoundCheckpoint& checkpoint, const std::string& model,
                                     const std::string& recipe, const std::vector<std::string>& set);

/// The recipe that the run keeps beside its checkpoint, else, or if the command line has `chosen` another,
/// the one in the settings. Throws UsageError.
Recipe recipe_of_checkpoint(const TrainSettings& settings, const std::filesystem::path& checkpoint,
                            bool chosen);

/// Warns if the data's classes have other names than those that `checkpoint` was trained on, so that a label
/// means another thing. Either may be unknown, and one may have more.
void warn_of_other_classes(const std::vector<std::string>& of_data, const std::vector<std::string>& trained,
                           const std::string& checkpoint);

/// The names of the network's classes, given those of the data, which may have fewer.
std::vector<std::string> class_names(const Model& model, const std::vector<std::string>& of_data);

} // namespace towers
