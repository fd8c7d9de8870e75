// A training state as a checkpoint file's tensors, and back.
#pragma once

#include "engine/plan/parameters.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <optional>
#include <string>

namespace towers {

/// Who wrote a checkpoint: what must agree for training to go on from it. The order of the examples follows
/// from the seed and the number of records.
struct CheckpointOrigin {
    std::string recipe;
    std::uint64_t seed;
    std::uint64_t records;  ///< of the training data
    std::uint64_t checksum; ///< likewise, as Dataset has it
    std::string settings;   ///< TOML of all that the training depends on, in the words of the command line
};

/// Tensors `<variable>` and `<variable>/ExponentialMovingAverage`; metadata recipe, step, epoch, examples,
/// seed, records, checksum, settings.
TensorFile to_checkpoint(const TrainingState& state, const ParameterLayout& layout,
                         const CheckpointOrigin& origin);

/// Reads what to_checkpoint() made. Throws InputError that names `path` when it belongs to another recipe, a
/// variable is missing, unknown or of another shape, or the numbers are not there.
TrainingState from_checkpoint(const TensorFile& file, const ParameterLayout& layout,
                              const std::string& recipe, const std::filesystem::path& path);

/// Throws an error that names `path` when the training of `origin` cannot go on from this checkpoint:
/// UsageError for another seed, InputError for other data. A checkpoint that says nothing of its data, as
/// early versions wrote them, is taken with any.
void check_origin(const TensorFile& file, const CheckpointOrigin& origin, const std::filesystem::path& path);

/// The seed in a checkpoint's metadata; throws InputError.
std::uint64_t checkpoint_seed(const TensorFile& file, const std::filesystem::path& path);

/// The settings in a checkpoint's metadata; nothing in one that an early version wrote.
std::optional<std::string> checkpoint_settings(const TensorFile& file);

/// A checkpoint as it was read.
struct FoundCheckpoint {
    std::filesystem::path path;
    TensorFile file;
};

/// The checkpoint of this step in a run's folder, else the latest one. Throws InputError when there is none,
/// and when it is damaged: then with the newest one that is not.
FoundCheckpoint find_checkpoint(const std::filesystem::path& folder, std::optional<std::uint64_t> step);

/// The latest checkpoint in a run's folder that can be read.
std::optional<std::filesystem::path> newest_sound_checkpoint(const std::filesystem::path& folder);

/// Initial parameters from tensors with the variables' names; the moving averages begin with them. Throws
/// InputError when one is missing or of another shape, and for values that are infinite or NaN.
TrainingState from_initial(const TensorFile& file, const ParameterLayout& layout,
                           const std::filesystem::path& path);

/// As from_initial(), from a safetensors file that may hold other tensors, of any type, as well.
TrainingState read_initial(const std::filesystem::path& path, const ParameterLayout& layout);

} // namespace towers
