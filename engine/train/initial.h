// What a run starts from when it starts from another one's variables.
#pragma once

#include "engine/train/checkpoint.h"

namespace towers {

/// An initial state whose trained variables come from the tensors with their names, and its statistics too if
/// the file has them; moving averages start from the variables. Throws InputError if a variable is missing or
/// has another shape, or a value is infinite or NaN.
TrainingState from_initial(const TensorFile& file, const StateLayout& layout,
                           const std::filesystem::path& path);

/// A state for use without training: it has the file's variables and statistics, which must all be there.
/// Throws like from_initial().
TrainingState from_variables(const TensorFile& file, const StateLayout& layout,
                             const std::filesystem::path& path);

/// A layer that gives a head's logits, and whose variables in the file are for another number of classes.
struct NewLayer {
    std::string name;
    std::vector<std::string> shapes; ///< of each variable, in the file and here
};

struct Beginning {
    TrainingState state;
    std::filesystem::path path;       ///< the file
    std::vector<NewLayer> new_layers; ///< these have the initial values of the seed
    std::vector<std::string> classes; ///< known_classes()
};

/// from_initial() with a safetensors file, which may also contain other tensors of any type, or with the
/// latest checkpoint of a run's folder. A layer that gives logits, and whose variables differ from the file's
/// only in the last axis, begins anew.
Beginning read_initial(const std::filesystem::path& path, const Model& model, const StateLayout& layout,
                       std::uint64_t seed);

} // namespace towers
