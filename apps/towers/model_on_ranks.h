// A trained model on several ranks: rank 0 has it and tells the others what they need to compute with it.
#pragma once

#include "apps/towers/ranks.h"
#include "engine/inference/dealing.h"
#include "engine/recipes/recipe.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// The devices that this process takes by its flags, as one of several ranks, which compare their
/// common_lines(), or, with null, alone. Has `open` use the processors that are its own. Throws UsageError.
std::vector<std::string> take_devices(Ranks* ranks, const std::string& backend, const std::string& towers,
                                      OpenOptions& open, const std::vector<std::string>& lines);

/// A model and how its devices compute.
struct ModelOnRanks {
    Recipe recipe;
    OpenOptions open; ///< of which ranks have only the precision in common
    unsigned batch;   ///< examples at a time
};

/// For Ranks::tell().
nlohmann::json to_message(const ModelOnRanks& model);
/// On another rank, whose devices open as `open` says.
ModelOnRanks model_in(const nlohmann::json& message, const OpenOptions& open);

/// Rank 0 sends the variables, laid out as StateLayout says, which the others receive.
void send_variables(Ranks& ranks, std::span<const float> variables);
std::vector<float> receive_variables(Ranks& ranks);

/// The batches of a rank's towers.
Dealing dealing_of(Ranks& ranks, unsigned rank);
Dealing own_dealing(Ranks& ranks);

} // namespace towers
