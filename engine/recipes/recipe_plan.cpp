#include "engine/recipes/recipe_plan.h"

#include <algorithm>

namespace towers {

StateLayout layout_of(const Recipe& recipe) {
    const Optimizer& optimizer = *recipe.optimizer;
    std::vector<Variable> variables = recipe.model.variables();
    std::ranges::stable_sort(variables, [](const Variable& a, const Variable& b) {
        if (a.frozen != b.frozen) return b.frozen;    // what stays as it is comes last
        if (a.role != b.role) return a.role < b.role; // trained variables first
        return a.node > b.node;
    });
    StateLayout layout;
    for (Variable& variable : variables) {
        const std::size_t bytes = variable.elements() * sizeof(float);
        const bool learns = variable.learns(), frozen = variable.frozen;
        const float decay =
            frozen ? 0.0f
                   : variable.weight_decay.value_or(
                         learns && (variable.decays || optimizer.decays_all) ? optimizer.weight_decay : 0.0f);
        layout.variables.push_back({std::move(variable), {layout.variable_bytes, bytes}, decay});
        layout.variable_bytes += aligned(bytes);
        if (learns) layout.trained_bytes = layout.variable_bytes;
        if (!frozen) layout.updated_bytes = layout.variable_bytes;
    }
    add_section(layout, Role::trained, "", 0);
    for (const Optimizer::State& state : optimizer.state())
        add_section(layout, Role::optimizer, '/' + state.name, state.initial);
    if (recipe.average_decay) add_section(layout, Role::average, "/ExponentialMovingAverage", 0);
    return layout;
}

double average_decay_at(const Recipe& recipe, std::uint64_t n) {
    const double decay = recipe.average_decay.value_or(0);
    return recipe.average_warm_up ? std::min(decay, (1.0 + double(n)) / (10.0 + double(n))) : decay;
}

NetworkSpec network_spec(const Recipe& recipe, const StateLayout& layout, NetworkSpec rest) {
    rest.model = &recipe.model;
    rest.layout = &layout;
    rest.pipeline = &recipe.pipeline;
    rest.mixes = rest.distort && recipe.mixing.mixes();
    return rest;
}

UpdateSpec update_spec(const Recipe& recipe, const StateLayout& layout, const Quirks& quirks) {
    return {
        .layout = &layout, .optimizer = recipe.optimizer.get(), .average_first = quirks.unordered_average};
}

StepNumbers numbers_of_update(const Recipe& recipe, double learning_rate, std::uint64_t n) {
    StepNumbers numbers{float(learning_rate), float(average_decay_at(recipe, n))};
    recipe.optimizer->prepare(numbers, n);
    return numbers;
}

} // namespace towers
