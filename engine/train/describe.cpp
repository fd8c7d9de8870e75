#include "engine/train/describe.h"

#include "engine/plan/network.h"

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
        layer.forward_flop = node.layer->flop(in);
        layer.backward_flop =
            (layer.parameters > 0 ? layer.forward_flop : 0) + (before ? layer.forward_flop : 0);
        learns.push_back(before || layer.parameters > 0);
        layers.push_back(std::move(layer));
    }
    return layers;
}

StepMemory memory_of_step(const Recipe& recipe, unsigned batch) {
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec{.model = &recipe.model,
                           .layout = &layout,
                           .pipeline = &recipe.pipeline,
                           .batch = batch,
                           .stored = shapes_size(recipe),
                           .records = 1,
                           .distort = true};
    const Plan plan = plan_single_step(spec, {.layout = &layout, .optimizer = recipe.optimizer.get()}).plan;
    return {.state = plan.bytes(Arena::state),
            .gradients = plan.bytes(Arena::gradients),
            .activations = plan.bytes(Arena::activations),
            .images = plan.find("images").bytes};
}

} // namespace towers
