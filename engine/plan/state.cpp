#include "engine/plan/state.h"

#include "engine/model/model.h"
#include "engine/optimizers/optimizer.h"
#include "engine/plan/plan.h"

#include <algorithm>
#include <stdexcept>

namespace towers {

const StateSection* StateLayout::averages() const {
    const auto found = std::ranges::find(sections, Role::average, &StateSection::role);
    return found == sections.end() ? nullptr : &*found;
}

std::vector<StateSlot> StateLayout::slots() const {
    std::vector<StateSlot> all;
    for (const StateSection& section : sections)
        for (const VariableSlot& slot : variables) {
            if (section.role == Role::optimizer && slot.variable.role != Role::trained) continue;
            const Role role = section.role == Role::trained ? slot.variable.role : section.role;
            all.push_back({slot.variable.name + section.suffix,
                           role,
                           &slot.variable,
                           {section.range.offset + slot.range.offset, slot.range.bytes}});
        }
    return all;
}

const VariableSlot& StateLayout::find(const std::string& variable) const {
    for (const VariableSlot& slot : variables)
        if (slot.variable.name == variable) return slot;
    throw std::logic_error("state: no variable " + variable);
}

StateLayout layout_state(const Model& model, const Optimizer& optimizer, bool averages) {
    std::vector<Variable> variables = model.variables();
    std::stable_sort(variables.begin(), variables.end(), [](const Variable& a, const Variable& b) {
        if (a.role != b.role) return a.role < b.role; // trained ones first
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
    const auto add = [&](Role role, std::string suffix, float initial, std::size_t bytes) {
        layout.sections.push_back({role, std::move(suffix), initial, {layout.bytes, bytes}});
        layout.bytes += bytes;
    };
    add(Role::trained, "", 0, layout.variable_bytes);
    for (const Optimizer::State& state : optimizer.state())
        add(Role::optimizer, '/' + state.name, state.initial, layout.trained_bytes);
    if (averages) add(Role::average, "/ExponentialMovingAverage", 0, layout.variable_bytes);
    return layout;
}

std::vector<float> initial_state(const StateLayout& layout, std::uint64_t seed) {
    std::vector<float> state(layout.bytes / sizeof(float));
    for (const VariableSlot& slot : layout.variables)
        std::ranges::copy(initial_values(slot.variable, seed), part(std::span(state), slot.range).begin());
    for (const StateSection& section : layout.sections)
        if (section.role == Role::optimizer)
            for (const VariableSlot& slot : layout.variables)
                if (slot.variable.role == Role::trained)
                    std::ranges::fill(part(part(std::span(state), section.range), slot.range),
                                      section.initial);
    start_averages(layout, state);
    return state;
}

void start_averages(const StateLayout& layout, std::span<float> state) {
    if (const StateSection* averages = layout.averages())
        std::ranges::copy(part(state, layout.all_variables()), part(state, averages->range).begin());
}

std::vector<ArenaRange> make_buckets(const StateLayout& layout, std::size_t least) {
    std::vector<ArenaRange> buckets;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < layout.variables.size(); ++i) {
        const ArenaRange& range = layout.variables[i].range;
        const std::size_t end = range.offset + aligned(range.bytes);
        const bool last = i + 1 == layout.variables.size();
        // A layer's variables are done together, so they stay together.
        const bool layer_goes_on =
            !last && layout.variables[i + 1].variable.node == layout.variables[i].variable.node;
        if (last || (!layer_goes_on && end - begin >= least)) {
            buckets.push_back({begin, end - begin});
            begin = end;
        }
    }
    return buckets;
}

} // namespace towers
