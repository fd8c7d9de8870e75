// A training state as a checkpoint file's tensors, and back.
#pragma once

#include "engine/plan/parameters.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <string>

namespace towers {

/// Who wrote a checkpoint: what must agree when it is read back.
struct CheckpointOrigin {
    std::string recipe;
    std::uint64_t seed;
};

/// Tensors `<variable>` and `<variable>/ExponentialMovingAverage`; metadata recipe, step, epoch, examples,
/// seed.
TensorFile to_checkpoint(const TrainingState& state, const ParameterLayout& layout,
                         const CheckpointOrigin& origin, std::uint64_t records);

/// Reads what to_checkpoint() made. Throws InputError that names `path` when it belongs to another recipe, a
/// variable is missing, unknown or of another shape, or the numbers are not there.
TrainingState from_checkpoint(const TensorFile& file, const ParameterLayout& layout,
                              const std::string& recipe, const std::filesystem::path& path);

/// Throws UsageError that names `path` when training from `origin` cannot go on from this checkpoint.
void check_origin(const TensorFile& file, const CheckpointOrigin& origin, const std::filesystem::path& path);

/// The seed in a checkpoint's metadata; throws InputError.
std::uint64_t checkpoint_seed(const TensorFile& file, const std::filesystem::path& path);

/// Initial parameters from any safetensors file that holds every variable; the moving averages begin with
/// them.
TrainingState from_initial(const TensorFile& file, const ParameterLayout& layout,
                           const std::filesystem::path& path);

} // namespace towers
