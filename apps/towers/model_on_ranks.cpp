#include "apps/towers/model_on_ranks.h"

#include "apps/towers/start_over.h"
#include "engine/ranks/message.h"

#include <cstdint>
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
    return {{"recipe", to_message(model.recipe)},
            {"precision", name_of(model.open.precision)},
            {"round_operands", model.open.round_operands},
            {"batch", model.batch}};
}

ModelOnRanks model_in(const nlohmann::json& message, const OpenOptions& open) {
    ModelOnRanks model{recipe_in(message["recipe"]), open, message["batch"]};
    model.open.precision = precision_of(message["precision"].get<std::string>()).value();
    model.open.round_operands = message["round_operands"];
    return model;
}

void send_variables(Ranks& ranks, std::span<const float> variables) {
    Writer message;
    message.put(std::uint64_t(variables.size()));
    message.put(variables);
    ranks.world().courier().send_all(Topic::state, message.take());
}

std::vector<float> receive_variables(Ranks& ranks) {
    const Bytes message = ranks.world().courier().receive(0, Topic::state);
    Reader reader(message);
    const std::span<const float> variables = reader.get<float>(reader.get<std::uint64_t>());
    return {variables.begin(), variables.end()};
}

Dealing dealing_of(Ranks& ranks, unsigned rank) {
    const TowerRanks& towers = ranks.towers();
    return {towers.first(rank), towers.counts[rank], towers.all()};
}

Dealing own_dealing(Ranks& ranks) { return dealing_of(ranks, ranks.world().rank()); }

} // namespace towers
