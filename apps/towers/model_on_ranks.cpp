#include "apps/towers/model_on_ranks.h"

#include "apps/towers/start_over.h"

#include <cstring>
#include <string>

namespace towers {

std::vector<std::string> take_devices(Ranks* ranks, const std::string& backend, const std::string& towers,
                                      OpenOptions& open, const std::vector<std::string>& lines) {
    if (ranks == nullptr) return choose_towers(backend, towers, open);
    const std::vector<std::string> own = ranks->own_towers(backend, towers, open);
    open.threads = ranks->threads_for(open.threads);
    if (ranks->is_first())
        ranks->gather_towers(own, lines);
    else
        ranks->tell_towers(own, lines);
    return own;
}

nlohmann::json to_message(const ModelOnRanks& model) {
    return {{"recipe", {{"name", model.recipe.name}, {"text", model.recipe.text}}},
            {"precision", name_of(model.open.precision)},
            {"round_operands", model.open.round_operands},
            {"batch", model.batch}};
}

ModelOnRanks model_in(const nlohmann::json& message, const OpenOptions& open) {
    const nlohmann::json& recipe = message["recipe"];
    ModelOnRanks model{parse_recipe(recipe["name"], recipe["text"], "the recipe of rank 0"), open,
                       message["batch"]};
    model.open.precision = precision_of(message["precision"].get<std::string>()).value();
    model.open.round_operands = message["round_operands"];
    return model;
}

void send_variables(Ranks& ranks, std::span<const float> variables) {
    const auto bytes = std::as_bytes(variables);
    ranks.world().courier().send_all(Topic::state, {bytes.begin(), bytes.end()});
}

std::vector<float> receive_variables(Ranks& ranks) {
    const Bytes bytes = ranks.world().courier().receive(0, Topic::state);
    std::vector<float> variables(bytes.size() / sizeof(float));
    std::memcpy(variables.data(), bytes.data(), bytes.size());
    return variables;
}

Dealing dealing_of(Ranks& ranks, unsigned rank) {
    const TowerRanks& towers = ranks.towers();
    return {towers.first(rank), towers.counts[rank], towers.all()};
}

Dealing own_dealing(Ranks& ranks) { return dealing_of(ranks, ranks.world().rank()); }

} // namespace towers
