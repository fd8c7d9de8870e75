#include "engine/model/read_model.h"

#include "backends/error.h"
#include "engine/model/expand.h"
#include "engine/plural.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <numeric>

namespace towers {
namespace {

constexpr std::size_t most_losses = 1000;

double elements_of(const std::vector<std::size_t>& shape) {
    double product = 1;
    for (const std::size_t size : shape) product *= double(size);
    return product;
}

void check_sizes(const Node& node, const std::vector<Shape>& in, const Attributes& table) {
    const Shape& out = node.output;
    if (double(out.height) * out.width * out.channels > double(most_elements))
        table.fail(
            fmt::format("makes {} of each example, too many for a device; use a smaller input or fewer "
                        "channels",
                        to_string(out)));
    for (const Variable& variable : node.layer->variables(in))
        if (elements_of(variable.shape) > double(most_elements))
            table.fail(fmt::format("has {:.0f} {}, more than a device can count; make it smaller",
                                   elements_of(variable.shape), variable.name));
}

Node read_node(const LayerEntry& entry, const Model& model, const std::string& file) {
    Attributes table(entry.table, file, fmt::format("layer '{}'", entry.name));
    Node node{.name = entry.name, .kind = entry.kind, .inputs = entry.inputs, .layer = {}, .output = {}};
    skip_common_keys(table);
    node.layer = make_layer(entry.kind, table);
    table.done();
    const auto [least, most] = node.layer->arity();
    if (node.inputs.size() < least || node.inputs.size() > most)
        table.fail(fmt::format("has {}; a layer of kind {} takes {}", count_of(node.inputs.size(), "input"),
                               entry.kind,
                               least == most ? std::to_string(least) : fmt::format("{} to {}", least, most)));
    const std::vector<Shape> in = model.input_shapes(node);
    try {
        node.output = node.layer->output(in);
    } catch (const LayerError& error) {
        table.fail(error.what());
    }
    check_sizes(node, in, table);
    return node;
}

ClassWeights read_class_weights(Attributes& loss, const char* key, unsigned classes) {
    constexpr double least = 1e-6, most = 1e6;
    const Value* const value = loss.find(key);
    if (value == nullptr) return {};
    if (const auto* const text = value->as<std::string>(); text != nullptr && *text == "balanced")
        return BalancedClasses{};
    if (const auto* const list = value->as<Value::Array>()) {
        if (list->size() != classes)
            loss.fail(key, fmt::format("has {}, but [input] has {} classes; give one for each",
                                       count_of(list->size(), "number"), classes));
        return loss.numbers(key, classes, least, most);
    }
    const auto* const table = value->as<Value::Table>();
    if (table == nullptr)
        loss.fail(key,
                  fmt::format("is {}; give \"balanced\", a list of {} numbers, or a table by the names of "
                              "the classes, such as {{ cat = 2.5, dog = 1 }}",
                              value->text(), classes));
    Attributes names(*value, loss.file(), fmt::format("{}: {}", loss.what(), key));
    std::map<std::string, double> by_name;
    for (const auto& [name, weight] : *table) by_name[name] = names.number(name, least, most);
    return by_name;
}

constexpr std::pair<const char*, LossKind> loss_kinds[] = {{"softmax", LossKind::softmax},
                                                           {"sigmoid", LossKind::sigmoid}};

LossHead read_head(Attributes loss, const LayerList& layers, const Model& model) {
    LossHead head;
    const std::string logits = loss.text("logits", layers.entries.back().name);
    head.node = layers.find(logits);
    if (head.node < 0)
        loss.fail("logits", fmt::format("is \"{}\", but no layer has that name; give one that has", logits));
    head.kind = loss.choice("kind", loss_kinds, "softmax");
    head.weight = float(loss.number("weight", 1e-6, 1e6, 1));
    head.smoothing = float(loss.number("smoothing", 0, 1, 0));
    head.logit_scale = float(loss.number("logit_scale", 1e-6, 1e6, 1));
    const char* const weights = weights_key(head.kind);
    const bool is_softmax = head.kind == LossKind::softmax;
    const char* const others = weights_key(is_softmax ? LossKind::sigmoid : LossKind::softmax);
    if (loss.has(others))
        loss.fail(others, fmt::format("is for heads of kind \"{}\"; give '{}'",
                                      is_softmax ? "sigmoid" : "softmax", weights));
    head.class_weights = read_class_weights(loss, weights, model.classes);
    if (head.is_weighted()) head.place = place_of(loss.file(), loss.find(weights)->line) + ": " + loss.what();
    loss.done();
    const Node& node = model.nodes[std::size_t(head.node)];
    if (node.output != Shape{1, 1, model.classes})
        loss.fail(
            "logits",
            fmt::format("is \"{}\", which makes {}, but {} classes need [1, 1, {}]; end with a dense layer "
                        "of {} units, or \"$classes\"",
                        logits, to_string(node.output), model.classes, model.classes, model.classes));
    return head;
}

/// Refuses a layer whose output nothing uses: some input must be wrong.
void check_used(const Model& model, const LayerList& layers, const std::string& file) {
    std::vector<bool> used(model.nodes.size());
    for (const LossHead& head : model.heads) used[std::size_t(head.node)] = true;
    for (const Node& node : model.nodes)
        for (const int from : node.inputs)
            if (from >= 0) used[std::size_t(from)] = true;
    const auto unused = std::ranges::find(used, false);
    if (unused == used.end()) return;
    const LayerEntry& entry = layers.entries[std::size_t(unused - used.begin())];
    Attributes(entry.table, file, fmt::format("layer '{}'", entry.name))
        .fail(
            "makes what no layer takes and no loss is computed from; name it among a layer's inputs, or take "
            "it out");
}

/// A step must be able to hold whole groups of every batch norm.
void check_groups(const Model& model, const LayerList& layers, const std::string& file) {
    std::uint64_t group = 1;
    for (std::size_t i = 0; i < model.nodes.size(); ++i) {
        const Node& node = model.nodes[i];
        group = std::lcm(group, std::uint64_t(std::max(1u, node.layer->group())));
        if (group > most_batch)
            Attributes(layers.entries[i].table, file, fmt::format("layer '{}'", node.name))
                .fail(fmt::format(
                    "makes batch norm's groups of {} examples together with the layers before it, "
                    "more than the {} of the largest batch; give these layers one group size",
                    group, most_batch));
    }
}

void check_variables(const Model& model, const Attributes& network) {
    constexpr double most = 4.0 * double(most_elements); // updates work on vectors of four
    double elements = 0;
    bool learns = false;
    for (const Variable& variable : model.variables()) {
        elements += elements_of(variable.shape);
        learns = learns || variable.role == Role::trained;
    }
    if (!learns) network.fail("layers", "has no layer that learns; add one, such as conv2d or dense");
    if (elements > most)
        network.fail("layers",
                     fmt::format("has {:.0f} numbers in all variables, more than a device can count; "
                                 "use fewer or smaller layers",
                                 elements));
}

} // namespace

Model read_model(Attributes& recipe) {
    Model model;
    Attributes input = recipe.table("input");
    const std::vector<unsigned> shape = input.wholes("shape", 3, 1, 1 << 16);
    model.input = {shape[0], shape[1], shape[2]};
    if (model.input.channels != 1 && model.input.channels != 3)
        input.fail("shape", fmt::format("has {} channels; give 1 (grey) or 3 (red, green, blue)",
                                        model.input.channels));
    if (model.input.elements() > most_elements)
        input.fail("shape", fmt::format("has {} values, more than a device can count; give a smaller one",
                                        model.input.elements()));
    model.classes = unsigned(input.whole("classes", 2, 1 << 20));
    model.label_offset = unsigned(input.whole("label_offset", 0, model.classes - 1, 0));
    input.done();

    const LayerList layers = expand(recipe);
    for (const LayerEntry& entry : layers.entries)
        model.nodes.push_back(read_node(entry, model, recipe.file()));
    std::vector<Attributes> losses = recipe.tables("loss");
    if (losses.size() > most_losses)
        recipe.fail("loss", fmt::format("has {} tables; give at most {}", losses.size(), most_losses));
    if (losses.empty()) {
        const unsigned line = layers.entries.back().table.line;
        const Value last{Value::Table{}, line};
        model.heads.push_back(read_head({last, recipe.file(), "the last layer"}, layers, model));
    }
    for (Attributes& loss : losses) model.heads.push_back(read_head(std::move(loss), layers, model));
    check_used(model, layers, recipe.file());
    check_groups(model, layers, recipe.file());
    check_variables(model, recipe.table("network"));
    return model;
}

} // namespace towers
