#include "engine/model/model.h"

#include <algorithm>
#include <numeric>

namespace towers {

std::vector<Shape> Model::input_shapes(const Node& node) const {
    std::vector<Shape> shapes;
    for (const int from : node.inputs) shapes.push_back(from < 0 ? input : nodes[std::size_t(from)].output);
    return shapes;
}

std::vector<Variable> Model::variables() const {
    std::vector<Variable> all;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::vector<Shape> in = input_shapes(nodes[i]);
        for (Variable& variable : nodes[i].layer->variables(in)) {
            variable.name = nodes[i].name + '/' + variable.name;
            variable.node = int(i);
            variable.frozen = frozen.contains(variable.name);
            all.push_back(std::move(variable));
        }
    }
    return all;
}

Model Model::for_evaluation() const {
    std::vector<bool> needed(nodes.size());
    needed[std::size_t(heads[0].node)] = true;
    for (std::size_t i = nodes.size(); i-- > 0;)
        if (needed[i])
            for (const int from : nodes[i].inputs)
                if (from >= 0) needed[std::size_t(from)] = true;
    Model kept = *this;
    kept.nodes.clear();
    std::vector<int> place(nodes.size(), -1);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (!needed[i]) continue;
        place[i] = int(kept.nodes.size());
        Node node = nodes[i];
        for (int& from : node.inputs)
            if (from >= 0) from = place[std::size_t(from)];
        kept.nodes.push_back(std::move(node));
    }
    kept.heads = {heads[0]};
    kept.heads[0].node = place[std::size_t(heads[0].node)];
    kept.heads[0].class_weights = {};
    return kept;
}

std::size_t Model::weighted_heads() const {
    return std::size_t(std::ranges::count_if(heads, &LossHead::is_weighted));
}

const Node* Model::joining_layer() const {
    const auto found = std::ranges::find(nodes, 0u, [](const Node& node) { return node.layer->group(); });
    return found == nodes.end() ? nullptr : &*found;
}

unsigned Model::group() const {
    unsigned group = 1;
    for (const Node& node : nodes) group = std::lcm(group, std::max(1u, node.layer->group()));
    return group;
}

} // namespace towers
