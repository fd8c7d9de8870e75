#include "engine/plan/parameters.h"

#include "engine/plan/plan.h"

#include <algorithm>

namespace towers {

ParameterLayout layout_parameters(const Model& model) {
    std::vector<Variable> variables = variables_of(model);
    std::stable_sort(variables.begin(), variables.end(),
                     [](const Variable& a, const Variable& b) { return a.layer > b.layer; });
    ParameterLayout layout;
    for (Variable& variable : variables) {
        const std::size_t bytes = variable.elements() * sizeof(float);
        layout.slots.push_back({std::move(variable), {layout.bytes, bytes}});
        layout.bytes += aligned(bytes);
    }
    return layout;
}

std::vector<float> initial_parameters(const ParameterLayout& layout, std::uint64_t seed) {
    std::vector<float> parameters(layout.bytes / sizeof(float));
    for (const ParameterSlot& slot : layout.slots) {
        const std::vector<float> values = initial_values(slot.variable, seed);
        std::copy(values.begin(), values.end(),
                  parameters.begin() + std::ptrdiff_t(slot.range.offset / sizeof(float)));
    }
    return parameters;
}

std::vector<ArenaRange> make_buckets(const ParameterLayout& layout, std::size_t least) {
    std::vector<ArenaRange> buckets;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < layout.slots.size(); ++i) {
        const ArenaRange& range = layout.slots[i].range;
        const std::size_t end = range.offset + aligned(range.bytes);
        const bool last = i + 1 == layout.slots.size();
        // A layer's variables are done together, so they stay together.
        const bool layer_goes_on =
            !last && layout.slots[i + 1].variable.layer == layout.slots[i].variable.layer;
        if (last || (!layer_goes_on && end - begin >= least)) {
            buckets.push_back({begin, end - begin});
            begin = end;
        }
    }
    return buckets;
}

} // namespace towers
