#include "engine/step/layout.h"

#include <algorithm>

namespace towers {

StateLayout layout_state(const Model& model, const Optimizer& optimizer, bool averages) {
    std::vector<Variable> variables = model.variables();
    std::stable_sort(variables.begin(), variables.end(), [](const Variable& a, const Variable& b) {
        if (a.role != b.role) return a.role < b.role; // trained variables first
        return a.node > b.node;
    });
    StateLayout layout;
    for (Variable& variable : variables) {
        const std::size_t bytes = variable.elements() * sizeof(float);
        const bool trained = variable.role == Role::trained;
        const float decay = variable.weight_decay.value_or(
            trained && (variable.decays || optimizer.decays_all) ? optimizer.weight_decay : 0.0f);
        layout.variables.push_back({std::move(variable), {layout.variable_bytes, bytes}, decay});
        layout.variable_bytes += aligned(bytes);
        if (trained) layout.trained_bytes = layout.variable_bytes;
    }
    add_section(layout, Role::trained, "", 0);
    for (const Optimizer::State& state : optimizer.state())
        add_section(layout, Role::optimizer, '/' + state.name, state.initial);
    if (averages) add_section(layout, Role::average, "/ExponentialMovingAverage", 0);
    return layout;
}

} // namespace towers
