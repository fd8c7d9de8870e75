// Converts a training state to a checkpoint file's tensors, and back.
#pragma once

#include "engine/data/batch.h"
#include "engine/plan/state.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers {

/// The origin of a checkpoint. To continue a training from it, the origins must agree. The order of the
/// examples follows from the seed and the number of records.
struct CheckpointOrigin {
    std::string recipe;
    std::uint64_t seed;
    std::uint64_t records;                 ///< of the training data
    std::uint64_t checksum;                ///< of the training data, see DataSource::checksum()
    std::string settings;                  ///< TOML: the flags on which the training depends
    std::uint64_t recipe_checksum = 0;     ///< see Recipe
    std::vector<std::string> classes = {}; ///< names, of the training data, in the order of their labels
    ImageSize image = {0, 0, 0};           ///< of the training data, before a conversion for the recipe
};

/// The tensors of floats that a step that diverged has beside those of its state.
constexpr std::pair<const char*, std::vector<float> BatchTables::*> step_tables[] = {
    {"examples/targets", &BatchTables::targets}, {"examples/class_weights", &BatchTables::class_weights}};

/// Makes a tensor for each piece of the state, such as `<variable>/ExponentialMovingAverage`, and the
/// metadata recipe, recipe_checksum, step, epoch, examples, seed, records, checksum, settings, classes,
/// image, frozen if variables are, loss_scale and loss_scale_steps with loss scaling, and plateau with that
/// schedule.
TensorFile to_checkpoint(const TrainingState& state, const StateLayout& layout,
                         const CheckpointOrigin& origin);

/// Throws InputError, which names `path`, if the checkpoint belongs to another recipe. Compares checksums, or
/// names if an early version wrote the checkpoint.
void check_recipe(const TensorFile& file, const Recipe& recipe, const std::filesystem::path& path);

/// The names of the variables that were frozen when the checkpoint was saved. It has no optimizer's state of
/// them.
std::set<std::string> frozen_in(const TensorFile& file);

/// The inverse of to_checkpoint(). What was frozen may learn now, with the optimizer's initial state, and
/// what learned may be frozen. Throws InputError, which names `path`, if a variable is missing, unknown or of
/// another shape, or a number in the metadata is missing or wrong.
TrainingState from_checkpoint(const TensorFile& file, const StateLayout& layout,
                              const std::filesystem::path& path);

/// Throws an error, which names `path`, if the training of `origin` cannot continue from this checkpoint:
/// UsageError for another seed, InputError for other data. Checkpoints of early versions, which say nothing
/// of their data, fit any data.
void check_origin(const TensorFile& file, const CheckpointOrigin& origin, const std::filesystem::path& path);

/// Reads a number of a checkpoint's metadata, such as `seed`. Throws InputError.
std::uint64_t checkpoint_number(const TensorFile& file, const std::string& key,
                                const std::filesystem::path& path);

/// The settings in a checkpoint's metadata; none if an early version wrote it.
std::optional<std::string> checkpoint_settings(const TensorFile& file);

/// The training data as a checkpoint's metadata describe them.
struct TrainedOn {
    std::vector<std::string> classes; ///< CheckpointOrigin's
    ImageSize image;
};
/// None if an early version wrote the checkpoint. InputError, which names `path`, for what is no description.
std::optional<TrainedOn> checkpoint_data(const TensorFile& file, const std::filesystem::path& path);

/// The classes of the training data, as far as the metadata tell.
std::vector<std::string> known_classes(const TensorFile& file);

/// A checkpoint and the path that it was read from.
struct FoundCheckpoint {
    std::filesystem::path path;
    TensorFile file;
};

/// Reads the checkpoint of this step in a run's folder, or the latest one if no step is given. Throws
/// InputError if there is none, it is damaged, or a number in it is infinite or NaN; the message then names
/// the newest sound one.
FoundCheckpoint find_checkpoint(const std::filesystem::path& folder, std::optional<std::uint64_t> step);

/// The step of the latest checkpoint in a run's folder that can be read and holds finite numbers.
std::optional<std::uint64_t> newest_sound_checkpoint(const std::filesystem::path& folder);

/// Copies the tensor of this piece's name into the state. Throws InputError, which names `path`, if it is
/// missing or has another shape.
void copy_in(const TensorFile& file, const StateSlot& slot, std::span<float> state,
             const std::filesystem::path& path);

/// Throws InputError if a value is infinite or NaN.
void check_finite(const Tensor& tensor, const std::string& name, const std::filesystem::path& path);

} // namespace towers
