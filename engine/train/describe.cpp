#include "engine/train/describe.h"

#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/shares/shares.h"

#include <algorithm>

namespace towers {

std::vector<LayerDescription> describe_layers(const Model& model) {
    std::vector<LayerDescription> layers;
    std::vector<bool> learns; // whether the layer or one before it has trained variables
    for (const Node& node : model.nodes) {
        const std::vector<Shape> in = model.input_shapes(node);
        LayerDescription layer{.name = node.name, .kind = node.kind, .output = node.output};
        for (const Variable& variable : node.layer->variables(in))
            if (variable.role == Role::trained) layer.parameters += variable.elements();
        const bool before = std::ranges::any_of(
            node.inputs, [&](int from) { return from >= 0 && learns[std::size_t(from)]; });
        layer.attributes = to_string(node.layer->computation(in));
        layer.forward_flop = node.layer->flop(in);
        layer.backward_flop =
            (layer.parameters > 0 ? layer.forward_flop : 0) + (before ? layer.forward_flop : 0);
        learns.push_back(before || layer.parameters > 0);
        layers.push_back(std::move(layer));
    }
    return layers;
}

std::vector<VariableDescription> describe_variables(const Recipe& recipe) {
    std::vector<VariableDescription> all;
    const std::vector<Variable> variables = recipe.model.variables(); // in the model's order, not the state's
    for (const StateSection& section : layout_of(recipe).sections)
        for (const Variable& variable : variables) {
            if (section.role == Role::optimizer && variable.role != Role::trained) continue;
            all.push_back({.name = variable.name + section.suffix,
                           .role = section.role == Role::trained ? variable.role : section.role,
                           .shape = variable.shape,
                           .axes = variable.axes});
        }
    return all;
}

StepMemory memory_of_step(const Recipe& recipe, unsigned batch) {
    share_out(batch, 1, {}, recipe.model.group()); // refuses, like train, what is not whole groups
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = network_spec(
        recipe, layout, {.batch = batch, .stored = stored_size(recipe), .slots = 1, .distort = true});
    const Plan plan = plan_single_step(spec, update_spec(recipe, layout)).plan;
    return {.state = plan.bytes(Arena::state),
            .gradients = plan.bytes(Arena::gradients),
            .activations = plan.bytes(Arena::activations),
            .images = plan.find("images").bytes};
}

} // namespace towers
