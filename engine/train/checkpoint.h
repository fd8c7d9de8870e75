// A training state as a checkpoint file's tensors, and back.
#pragma once

#include "engine/plan/state.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <optional>
#include <string>

namespace towers {

/// Where a checkpoint comes from: this must agree for training to go on from it. The order of the examples
/// follows from the seed and the number of records.
struct CheckpointOrigin {
    std::string recipe;
    std::uint64_t seed;
    std::uint64_t records;  ///< of the training data
    std::uint64_t checksum; ///< likewise, see Dataset
    std::string settings;   ///< TOML of all that the training depends on, in the command line's terms
    std::uint64_t recipe_checksum = 0; ///< see Recipe
};

/// A tensor for each slot of the state, such as `<variable>/ExponentialMovingAverage`; metadata recipe,
/// recipe_checksum, step, epoch, examples, seed, records, checksum, settings.
TensorFile to_checkpoint(const TrainingState& state, const StateLayout& layout,
                         const CheckpointOrigin& origin);

/// Throws InputError that names `path` when the checkpoint belongs to another recipe: by the checksum, else,
/// for an early version's, by the name.
void check_recipe(const TensorFile& file, const Recipe& recipe, const std::filesystem::path& path);

/// Reads what to_checkpoint() made. Throws InputError that names `path` when a variable is missing, unknown
/// or of another shape, or a number is missing.
TrainingState from_checkpoint(const TensorFile& file, const StateLayout& layout,
                              const std::filesystem::path& path);

/// Throws an error that names `path` when the training of `origin` cannot go on from this checkpoint:
/// UsageError for another seed, InputError for other data. A checkpoint that says nothing of its data, which
/// early versions wrote, fits any data.
void check_origin(const TensorFile& file, const CheckpointOrigin& origin, const std::filesystem::path& path);

/// A number in a checkpoint's metadata, and two of them by name; they throw InputError.
std::uint64_t checkpoint_number(const TensorFile& file, const std::string& key,
                                const std::filesystem::path& path);
std::uint64_t checkpoint_seed(const TensorFile& file, const std::filesystem::path& path);
std::uint64_t checkpoint_step(const TensorFile& file, const std::filesystem::path& path);

/// The settings in a checkpoint's metadata; none if an early version wrote it.
std::optional<std::string> checkpoint_settings(const TensorFile& file);

/// A checkpoint and the path that it was read from.
struct FoundCheckpoint {
    std::filesystem::path path;
    TensorFile file;
};

/// The checkpoint of this step in a run's folder, else the latest one. Throws InputError when there is none,
/// it is damaged, or one of its numbers is infinite or NaN; the message then names the newest sound one.
FoundCheckpoint find_checkpoint(const std::filesystem::path& folder, std::optional<std::uint64_t> step);

/// The step of the latest checkpoint in a run's folder that can be read and holds finite numbers.
std::optional<std::uint64_t> newest_sound_checkpoint(const std::filesystem::path& folder);

/// An initial state with trained variables from tensors with their names, and statistics where the file has
/// them; the moving averages start from those. Throws InputError when one is missing or of another shape, and
/// for values that are infinite or NaN.
TrainingState from_initial(const TensorFile& file, const StateLayout& layout,
                           const std::filesystem::path& path);

/// Like from_initial(), from a safetensors file that may also hold other tensors, of any type.
TrainingState read_initial(const std::filesystem::path& path, const StateLayout& layout);

} // namespace towers
