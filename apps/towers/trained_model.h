// What commands that use a trained model need of its checkpoint.
#pragma once

#include "apps/towers/settings.h"
#include "engine/recipes/recipe.h"
#include "engine/run/safetensors.h"
#include "engine/train/checkpoint.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Adds --run and --checkpoint, of which a command line may have one.
void add_model_flags(CLI::App& command, std::string& model);

/// Adds the word RUN|CHECKPOINT, with this help, and the flags, which may take its place.
void add_model(CLI::App& command, std::string& model, const std::string& help);

/// Throws UsageError if none is given to the command of this name.
void check_model(const std::string& model, const char* command);

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

/// What a checkpoint was trained on: as it says, or, if an early version wrote it, as its data are, in the
/// settings; none if they are gone. InputError, which names `path`, as checkpoint_data().
std::optional<TrainedOn> trained_on(const TensorFile& file, const std::filesystem::path& path,
                                    const TrainSettings& settings, const Recipe& recipe);

/// "class 0 of the data is 'cat', and ... was trained with 'dog' for it": a label means another thing. "" if
/// the names are the same, as far as both have some. Numbers are the same if their values are; numbers in
/// order are no names beside others.
std::string other_classes(const std::vector<std::string>& of_data, const std::vector<std::string>& trained,
                          const std::string& checkpoint);

/// The names of the network's classes, given those of the data, which may have fewer.
std::vector<std::string> class_names(const Model& model, const std::vector<std::string>& of_data);

/// Whether the network's loss is a sigmoid, so that a picture may have several labels or none.
bool tells_labels(const Recipe& recipe);

/// Adds --threshold.
void add_threshold(CLI::App& command, std::string& threshold);

/// UsageError if the network has no use for --threshold.
void check_threshold(const Recipe& recipe, const char* flag = "--threshold");

/// read_thresholds() for the network's classes. `names`: class_names(); those that are none of the data's
/// have usual_threshold.
std::vector<double> network_thresholds(const std::string& threshold, const Model& model,
                                       const std::vector<std::string>& names,
                                       const std::vector<std::string>& of_data);

} // namespace towers
