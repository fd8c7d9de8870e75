#include "engine/model/expand.h"

#include "engine/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

constexpr int images = -1, unknown = -2;
constexpr std::size_t most_layers = 10000;
constexpr int most_depth = 16;

} // namespace

/// The names that are known where a list of layers stands.
struct LayerList::Scope {
    std::string prefix; ///< of names: `stage1/2/`
    const Scope* outer = nullptr;
    int input = images;                                  ///< what the list takes
    int last = images;                                   ///< what the next layer takes
    std::vector<std::pair<std::string, int>> names = {}; ///< without the prefix
    std::vector<std::pair<std::string, Value>> parameters = {};
    int depth = 0;

    int own(const std::string& name) const {
        const auto found = std::ranges::find(names, name, &std::pair<std::string, int>::first);
        return found == names.end() ? unknown : found->second;
    }
    int find(const std::string& name) const {
        if (name == "images") return images;
        if (name == "input") return input;
        for (const Scope* scope = this; scope != nullptr; scope = scope->outer)
            if (const int entry = scope->own(name); entry != unknown) return entry;
        return unknown;
    }
};

LayerList::LayerList(Attributes& recipe) : file_(recipe.file()), blocks_(recipe.find("blocks")) {
    Attributes network = recipe.table("network");
    const Value* const layers = network.find("layers");
    if (layers == nullptr) recipe.fail("needs the network's layers; give [network] with layers = [ ... ]");
    network.done();
    Scope scope;
    expand(*layers, scope);
    names_ = scope.names;
    if (entries_.empty()) network.fail("layers", "is empty; give at least one layer");
}

int LayerList::find(const std::string& name) const {
    const auto found = std::ranges::find(names_, name, &std::pair<std::string, int>::first);
    if (found != names_.end()) return found->second;
    for (std::size_t i = 0; i < entries_.size(); ++i) // within a block, by its whole name
        if (entries_[i].name == name) return int(i);
    return unknown;
}

void LayerList::skip_common_keys(Attributes& layer) {
    for (const char* key : {"kind", "name", "input", "inputs", "activation", "when"}) layer.find(key);
}

void LayerList::expand(const Value& layers, Scope& scope) {
    const auto* const list = layers.as<Value::Array>();
    if (list == nullptr)
        throw UsageError(
            fmt::format("{}:{}: 'layers' is {}; give a list of tables", file_, layers.line, layers.text()));
    for (const Value& entry : *list) expand_entry(entry, scope);
}

/// A copy with the scope's parameters in place of "$key".
Value LayerList::fill_in(const Value& value, const Scope& scope) const {
    Value filled = value;
    if (const auto* text = value.as<std::string>(); text != nullptr && text->starts_with('$')) {
        const std::string key = text->substr(1);
        for (const Scope* each = &scope; each != nullptr; each = each->outer) {
            const auto found =
                std::ranges::find(each->parameters, key, &std::pair<std::string, Value>::first);
            if (found == each->parameters.end()) continue;
            filled.data = found->second.data; // in the place where it is used
            return filled;
        }
        throw UsageError(
            fmt::format("{}:{}: \"{}\": the block is given no '{}'; add it where the block is used", file_,
                        value.line, *text, key));
    }
    if (auto* array = filled.as<Value::Array>())
        for (Value& each : *array) each = fill_in(each, scope);
    if (auto* table = filled.as<Value::Table>())
        for (auto& [key, each] : *table)
            if (key != "layers") each = fill_in(each, scope); // its own parameters come first
    return filled;
}

void LayerList::expand_entry(const Value& entry, Scope& scope) {
    const Value& table = filled_in_.emplace_back(fill_in(entry, scope));
    Attributes attributes(table, file_, "a layer");
    const bool block = attributes.has("use") || attributes.has("layers");
    const std::string name = attributes.text("name", "");
    if (name.empty() && block) attributes.fail("needs 'name', which its layers' names begin with");
    for (const char* reserved : {"images", "input"})
        if (name == reserved)
            attributes.fail("name", fmt::format("is \"{}\", which has a meaning; use another", name));
    if (name.find_first_of("/ ") != std::string::npos)
        attributes.fail("name", fmt::format("is \"{}\"; use a name without spaces and '/'", name));
    if (!name.empty() && scope.own(name) != unknown)
        attributes.fail("name", fmt::format("is \"{}\", which another layer has; use another", name));
    if (!attributes.flag("when", true)) {
        if (!name.empty()) scope.names.emplace_back(name, scope.last);
        return;
    }
    if (entries_.size() > most_layers)
        attributes.fail(fmt::format("is the network's layer number {}; use fewer", entries_.size()));
    block ? add_block(attributes, scope) : add_layer(table, attributes, scope);
}

void LayerList::add_block(Attributes& block, Scope& scope) {
    const std::string name = block.text("name");
    if (scope.depth == most_depth)
        block.fail(fmt::format("stands {} blocks deep; a block must not hold itself", most_depth));
    const Value* layers = block.find("layers");
    if (block.has("use")) {
        if (layers != nullptr)
            block.fail("layers", "and 'use' both say what the block holds; give one of them");
        const std::string used = block.text("use");
        const Value* const definition = blocks_ != nullptr ? blocks_->find(used) : nullptr;
        if (definition == nullptr)
            block.fail("use", fmt::format("is \"{0}\", but there is no [blocks.{0}]; add it", used));
        Attributes body(*definition, file_, fmt::format("[blocks.{}]", used));
        layers = body.find("layers");
        if (layers == nullptr) body.fail("needs layers = [ ... ]");
        body.done();
    }
    if (block.has("repeat") && block.has("each"))
        block.fail("repeat", "and 'each' both say how often; give one of them");
    const bool repeated = block.has("repeat") || block.has("each");
    std::vector<const Value*> rounds(std::size_t(block.whole("repeat", 1, 1000, 1)), nullptr);
    if (block.has("each")) {
        rounds.clear();
        for (const Value& each : block.find("each")->as<Value::Array>() != nullptr
                                     ? *block.find("each")->as<Value::Array>()
                                     : Value::Array{}) {
            if (each.as<Value::Table>() == nullptr)
                block.fail("each", fmt::format("holds {}; give a table for each round", each.text()));
            rounds.push_back(&each);
        }
        if (rounds.empty()) block.fail("each", "is empty; give a table for each round");
    }
    int taken = scope.last;
    if (const auto inputs = block.texts("input"); !inputs.empty()) {
        taken = scope.find(inputs[0]);
        if (taken == unknown || inputs.size() != 1)
            block.fail("input", fmt::format("names no one layer before it; give one of those"));
    }
    const Value::Table given = *filled_in_.back().as<Value::Table>();
    for (std::size_t round = 0; round < rounds.size(); ++round) {
        Scope inner{.prefix = scope.prefix + name + '/' + (repeated ? fmt::format("{}/", round + 1) : ""),
                    .outer = &scope,
                    .input = taken,
                    .last = taken,
                    .depth = scope.depth + 1};
        if (rounds[round] != nullptr)
            for (const auto& [key, value] : *rounds[round]->as<Value::Table>())
                inner.parameters.emplace_back(key, value);
        for (const auto& [key, value] : given) inner.parameters.emplace_back(key, value);
        inner.parameters.emplace_back("round", Value{std::int64_t(round + 1), block.line()});
        inner.parameters.emplace_back("first", Value{round == 0, block.line()});
        expand(*layers, inner);
        taken = inner.last;
    }
    scope.names.emplace_back(name, taken);
    scope.last = taken;
}

std::string LayerList::free_name(const std::string& kind, Scope& scope) const {
    for (int i = 1;; ++i)
        if (const std::string name = fmt::format("{}{}", kind, i); scope.own(name) == unknown) return name;
}

void LayerList::add_layer(const Value& table, Attributes& layer, Scope& scope) {
    LayerEntry entry{.name = {}, .kind = layer.text("kind"), .inputs = {}, .table = &table};
    std::string name = layer.text("name", "");
    if (name.empty()) name = free_name(entry.kind, scope);
    entry.name = scope.prefix + name;
    if (layer.has("input") && layer.has("inputs"))
        layer.fail("input", "and 'inputs' both say what the layer takes; give one of them");
    for (const char* key : {"input", "inputs"})
        for (const std::string& from : layer.texts(key)) {
            const int found = scope.find(from);
            if (found == unknown)
                layer.fail(key,
                           fmt::format("names \"{}\", but no layer before this one has that name; a layer "
                                       "takes what stands before it",
                                       from));
            entry.inputs.push_back(found);
        }
    if (entry.inputs.empty()) entry.inputs = {scope.last};
    const std::string activation = layer.text("activation", "");
    entries_.push_back(entry);
    if (!activation.empty()) {
        Value::Table of_activation{{"kind", Value{activation, layer.line()}}};
        const Value& own = filled_in_.emplace_back(Value{std::move(of_activation), layer.line()});
        entries_.push_back({entry.name + '/' + activation, activation, {int(entries_.size()) - 1}, &own});
    }
    scope.last = int(entries_.size()) - 1;
    scope.names.emplace_back(name, scope.last);
}

} // namespace towers
