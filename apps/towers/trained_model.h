// What commands that use a trained model need of its checkpoint.
#pragma once

#include "apps/towers/settings.h"
#include "engine/recipes/recipe.h"
#include "engine/run/safetensors.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace towers {

/// The settings in a checkpoint's metadata, else those of its run's folder `run` (an early version's), which
/// may be empty. `recipe` and `set` replace them if they are given. `data` is empty if nothing names the
/// data.
TrainSettings settings_of_checkpoint(const TensorFile& file, const std::filesystem::path& path,
                                     const std::string& run, const std::string& recipe,
                                     const std::vector<std::string>& set);

/// The recipe that the run keeps beside its checkpoint, else, or if the command line has `chosen` another,
/// the one in the settings. Throws UsageError.
Recipe recipe_of_checkpoint(const TrainSettings& settings, const std::filesystem::path& checkpoint,
                            bool chosen);

/// read_latest_checkpoint(). If the checkpoint is damaged, the message ends with `instead`, in which {}
/// stands for a sound one.
void read_latest(const std::string& run, const std::string& instead,
                 const std::function<void(const std::filesystem::path&)>& read);

/// The names of the network's classes, given those of the data, which may have fewer.
std::vector<std::string> class_names(const Model& model, const std::vector<std::string>& of_data);

} // namespace towers
