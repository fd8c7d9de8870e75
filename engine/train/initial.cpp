#include "engine/train/initial.h"

#include "engine/run/run_directory.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace towers {
namespace {

using Shape = TensorShape;

bool has_variables(const Model& model, int node) {
    const Node& it = model.nodes[std::size_t(node)];
    return !it.layer->variables(model.input_shapes(it)).empty();
}

/// The last layer with variables before each head, if nothing but layers of one input follows it.
std::set<int> layers_of_logits(const Model& model) {
    std::set<int> found;
    for (const LossHead& head : model.heads)
        for (int node = head.node; node >= 0;) {
            if (has_variables(model, node)) {
                found.insert(node);
                break;
            }
            const std::vector<int>& inputs = model.nodes[std::size_t(node)].inputs;
            node = inputs.size() == 1 ? inputs[0] : -1;
        }
    return found;
}

bool differ_in_last_axis(const Shape& a, const Shape& b) {
    return a.size() == b.size() && a.back() != b.back() && std::equal(a.begin(), a.end() - 1, b.begin());
}

/// Of the model's layers that give logits, those that the file has for another number of classes.
std::map<int, NewLayer> find_new_layers(const TensorFile& file, const Model& model,
                                        const StateLayout& layout) {
    std::map<int, NewLayer> layers;
    std::set<int> logits = layers_of_logits(model);
    for (const VariableSlot& slot : layout.variables) {
        const Variable& variable = slot.variable;
        const auto found = file.tensors.find(variable.name);
        if (!logits.contains(variable.node) || found == file.tensors.end() ||
            found->second.shape == variable.shape)
            continue;
        if (variable.frozen ||                                           // whose values --freeze is to keep
            !differ_in_last_axis(found->second.shape, variable.shape)) { // another layer altogether
            logits.erase(variable.node);
            layers.erase(variable.node);
            continue;
        }
        NewLayer& layer = layers[variable.node];
        layer.name = model.nodes[std::size_t(variable.node)].name;
        layer.shapes.push_back(fmt::format("{} [{}] there, [{}] here", variable.name,
                                           fmt::join(found->second.shape, ", "),
                                           fmt::join(variable.shape, ", ")));
    }
    return layers;
}

bool is_of_the_model(const StateSlot& slot) {
    return slot.role == Role::trained || slot.role == Role::statistic;
}

void take(const TensorFile& file, const StateSlot& slot, const std::filesystem::path& path,
          std::span<float> state) {
    copy_in(file, slot, state, path);
    check_finite(file.tensors.at(slot.name), slot.name, path);
}

/// Copies the file's variables except those of `anew` into the state.
void start_from(const TensorFile& file, const StateLayout& layout, const std::filesystem::path& path,
                const std::map<int, NewLayer>& anew, std::span<float> state) {
    for (const StateSlot& slot : layout.slots()) {
        const bool optional = slot.role == Role::statistic && !file.tensors.contains(slot.name);
        if (is_of_the_model(slot) && !optional && !anew.contains(slot.variable->node))
            take(file, slot, path, state);
    }
    start_averages(layout, state);
}

} // namespace

TrainingState from_initial(const TensorFile& file, const StateLayout& layout,
                           const std::filesystem::path& path) {
    TrainingState state{.state = initial_state(layout, 0)};
    start_from(file, layout, path, {}, state.state);
    return state;
}

TrainingState from_variables(const TensorFile& file, const StateLayout& layout,
                             const std::filesystem::path& path) {
    TrainingState state{.state = std::vector<float>(layout.bytes / sizeof(float))};
    for (const StateSlot& slot : layout.slots())
        if (is_of_the_model(slot)) take(file, slot, path, state.state);
    start_averages(layout, state.state);
    return state;
}

Beginning read_initial(const std::filesystem::path& path, const Model& model, const StateLayout& layout,
                       std::uint64_t seed) {
    const auto is_variable = [&](const std::string& name) {
        return std::ranges::any_of(layout.variables,
                                   [&](const VariableSlot& slot) { return slot.variable.name == name; });
    };
    Beginning beginning{.state = {.state = initial_state(layout, seed)},
                        .path = std::filesystem::is_directory(path) ? latest_checkpoint(path) : path,
                        .new_layers = {},
                        .classes = {}};
    const TensorFile file = read_safetensors(beginning.path, is_variable);
    const std::map<int, NewLayer> anew = find_new_layers(file, model, layout);
    start_from(file, layout, beginning.path, anew, beginning.state.state);
    for (const auto& [node, layer] : anew) beginning.new_layers.push_back(layer);
    beginning.classes = known_classes(file);
    return beginning;
}

} // namespace towers
