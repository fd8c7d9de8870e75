// Ways to divide a step of 12 examples, or of more, which all train alike, and checks that they do.
#pragma once

#include "engine/data/source.h"
#include "engine/recipes/recipe.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <filesystem>
#include <string>
#include <vector>

namespace towers::test {

struct Way {
    std::string name;
    std::vector<std::string> towers;
    std::vector<double> shares = {};
    unsigned micro_batch = 0;
    Feeding feeding = Feeding::resident;
};

std::vector<Way> ways_on(const std::string& id);

TrainerOptions options_of(const Way& way, bool shuffle, unsigned batch = 12);

/// Checks on every device, in every way, that from the file's `init/` the losses of 20 steps over the records
/// in their order are its `losses/CASE`, and the gradients of the first its `gradient/CASE/`. `seed`: of what
/// is random.
void check_losses(const TensorFile& file, const std::filesystem::path& path, const std::string& name,
                  const Recipe& recipe, const DataSource& data, std::uint64_t seed);

/// Checks on every device that 6 steps have the gradients of one tower on the processor in every way.
void check_any_division(const Recipe& recipe, const DataSource& data, unsigned batch = 12);

/// Checks that a training that goes on after `half` steps has the bits of an undisturbed one after `end`, in
/// every way on the processor.
void check_goes_on(const Recipe& recipe, const DataSource& data, int half, int end);

} // namespace towers::test
