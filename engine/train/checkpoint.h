// A training state as a checkpoint file's tensors, and back.
#pragma once

#include "engine/plan/parameters.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <string>

namespace towers {

/// Who wrote a checkpoint: what must agree for training to go on from it. The order of the examples follows
/// from the seed and the number of records.
struct CheckpointOrigin {
    std::string recipe;
    std::uint64_t seed;
    std::uint64_t records;  ///< of the training data
    std::uint64_t checksum; ///< likewise, as Dataset has it
};

/// Tensors `<variable>` and `<variable>/ExponentialMovingAverage`; metadata recipe, step, epoch, examples,
/// seed, records, checksum.
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

/// The seed of the run in this folder, from its latest checkpoint; throws InputError.
std::uint64_t run_seed(const std::filesystem::path& folder);

/// Initial parameters from any safetensors file that holds every variable; the moving averages begin with
/// them.
TrainingState from_initial(const TensorFile& file, const ParameterLayout& layout,
                           const std::filesystem::path& path);

} // namespace towers
