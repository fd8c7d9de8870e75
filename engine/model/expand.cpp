#include "engine/model/expand.h"

#include "backends/error.h"
#include "engine/layers/layer.h"
#include "engine/nearest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <set>
#include <utility>

namespace towers {
namespace {

constexpr int images = -1, unknown = -2;
constexpr std::size_t most_layers = 10000;
constexpr int most_depth = 16;

const std::vector<std::string> keys_of_blocks{"name", "use", "layers", "repeat", "each", "input", "when"};

/// Whether "$key" occurs in a block's layers or in the blocks that they use.
class Mentions {
public:
    Mentions(const std::string& key, const Value* blocks) : word_('$' + key), blocks_(blocks) {}

    bool in(const Value& value) {
        if (const auto* text = value.as<std::string>()) return *text == word_;
        if (const auto* array = value.as<Value::Array>())
            return std::ranges::any_of(*array, [&](const Value& each) { return in(each); });
        const auto* table = value.as<Value::Table>();
        if (table == nullptr) return false;
        const Value* const use = value.find("use");
        if (use != nullptr && use->as<std::string>() != nullptr && in_block(*use->as<std::string>()))
            return true;
        return std::ranges::any_of(*table, [&](const auto& entry) { return in(entry.second); });
    }

private:
    bool in_block(const std::string& name) {
        if (name.starts_with('$')) return true; // may be any block
        const Value* const block = blocks_ != nullptr ? blocks_->find(name) : nullptr;
        return block != nullptr && seen_.insert(name).second && in(*block);
    }

    std::string word_;
    const Value* blocks_;
    std::set<std::string> seen_;
};

/// The names that are known within one list of layers.
struct Scope {
    std::string prefix; ///< of full names: `stage1/2/`
    const Scope* outer = nullptr;
    int input = images;                                 ///< the entry that is the list's input
    int last = images;                                  ///< the entry that is the next layer's input
    std::unordered_map<std::string, int> names = {};    ///< entries by name, without the prefix
    std::unordered_map<std::string, int> numbered = {}; ///< last number used in each kind's default names
    std::vector<Value::Entry> parameters = {};
    int depth = 0;

    int own(const std::string& name) const {
        const auto found = names.find(name);
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

class Expansion {
public:
    explicit Expansion(Attributes& recipe)
        : file_(recipe.file()), blocks_(recipe.find("blocks")), defaults_(recipe.find("defaults")) {
        for (const char* key : {"blocks", "defaults"}) recipe.table(key); // refuses anything but a table
        if (blocks_ != nullptr)
            for (const auto& [name, block] : *blocks_->as<Value::Table>())
                if (Attributes body(block, file_, fmt::format("[blocks.{}]", name)); !body.has("layers"))
                    body.fail("needs layers = [ ... ]");
        Attributes network = recipe.table("network");
        const Value* const layers = network.find("layers");
        if (layers == nullptr)
            recipe.fail("needs the network's layers; give [network] with layers = [ ... ]");
        network.done();
        Scope scope;
        if (const Value* const input = recipe.find("input"))
            if (const Value* const classes = input->find("classes"))
                scope.parameters.emplace_back("classes", *classes);
        expand(*layers, scope);
        list_.names = std::move(scope.names);
        if (list_.entries.empty()) network.fail("layers", "is empty; give at least one layer");
        check_defaults();
    }

    LayerList take() { return std::move(list_); }

private:
    void check_defaults() const {
        if (defaults_ == nullptr) return;
        for (const auto& [kind, table] : *defaults_->as<Value::Table>()) {
            const Attributes attributes(table, file_, fmt::format("[defaults.{}]", kind));
            if (kinds_.contains(kind)) continue;
            const std::vector<std::string> kinds = layer_kinds();
            if (std::ranges::find(kinds, kind) == kinds.end())
                attributes.fail(
                    fmt::format("is for no kind of layer; choose from {}", fmt::join(kinds, ", ")));
            attributes.fail("is for a kind of layer that the network does not have; take it out");
        }
    }

    /// The table with the defaults of its kind.
    Value with_defaults(const Value& table, const std::string& kind) {
        kinds_.insert(kind);
        const Value* const defaults = defaults_ != nullptr ? defaults_->find(kind) : nullptr;
        if (defaults == nullptr) return table;
        const Attributes attributes(*defaults, file_, fmt::format("[defaults.{}]", kind));
        Value whole = table;
        for (const auto& [key, value] : *defaults->as<Value::Table>()) {
            for (const char* own : {"kind", "name", "input", "inputs", "when"})
                if (key == own) attributes.fail(key, "belongs to each layer; give it there");
            if (table.find(key) == nullptr) whole.as<Value::Table>()->emplace_back(key, value);
        }
        return whole;
    }

    /// Refuses keys that are neither `known` nor used in the block's layers, and suggests a similar known
    /// key.
    void check_parameters(const Value::Table& given, const std::vector<std::string>& known,
                          const Value& layers, const Attributes& block) const {
        for (const auto& [key, value] : given) {
            if (std::ranges::find(known, key) != known.end() || Mentions(key, blocks_).in(layers)) continue;
            const std::string meant = nearest(key, known);
            throw UsageError(fmt::format("{}: {}: '{}' is used by no layer of the block{}; write \"${}\" "
                                         "there, or take it out",
                                         place_of(file_, value.line), block.what(), key,
                                         meant.empty() ? "" : fmt::format(" (but there is '{}')", meant),
                                         key));
        }
    }

    /// Throws: this layer is one too many.
    [[noreturn]] void refuse(const Value& layer) const {
        Attributes(layer, file_, "a layer")
            .fail(fmt::format("is the network's layer number {}; use fewer", most_layers + 1));
    }

    void expand(const Value& layers, Scope& scope) {
        const auto* const list = layers.as<Value::Array>();
        if (list == nullptr)
            throw UsageError(fmt::format("{}: 'layers' is {}; give a list of tables",
                                         place_of(file_, layers.line), layers.text()));
        if (list->size() > most_layers - written_) refuse((*list)[most_layers - written_]); // before any work
        for (const Value& entry : *list) expand_entry(entry, scope);
    }

    /// A copy with the scope's parameters in place of "$key".
    Value fill_in(const Value& value, const Scope& scope) const {
        Value filled = value;
        if (const auto* text = value.as<std::string>(); text != nullptr && text->starts_with('$')) {
            const std::string key = text->substr(1);
            for (const Scope* each = &scope; each != nullptr; each = each->outer) {
                const auto found = std::ranges::find(each->parameters, key, &Value::Entry::first);
                if (found == each->parameters.end()) continue;
                filled.data = found->second.data; // keeps the line of the use
                return filled;
            }
            throw UsageError(
                fmt::format("{}: \"{}\": the block is given no '{}'; add it where the block is used",
                            place_of(file_, value.line), *text, key));
        }
        if (auto* array = filled.as<Value::Array>())
            for (Value& each : *array) each = fill_in(each, scope);
        if (auto* table = filled.as<Value::Table>())
            for (auto& [key, each] : *table)
                if (key != "layers") each = fill_in(each, scope); // the block's own parameters come first
        return filled;
    }

    void expand_entry(const Value& entry, Scope& scope) {
        const Value table = fill_in(entry, scope);
        Attributes attributes(table, file_, "a layer");
        if (++written_ > most_layers) refuse(table);
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
        if (!attributes.flag("when", true)) { // its name stands for its input
            const std::vector<int> inputs = inputs_of(attributes, scope);
            if (!name.empty()) scope.names.emplace(name, inputs.empty() ? scope.last : inputs[0]);
            return;
        }
        block ? add_block(attributes, *table.as<Value::Table>(), scope) : add_layer(table, scope);
    }

    void add_block(Attributes& block, const Value::Table& given, Scope& scope) {
        const std::string name = block.text("name");
        if (scope.depth == most_depth)
            block.fail(fmt::format("stands {} blocks deep; a block must not hold itself", most_depth));
        const Value* layers = block.find("layers");
        Value::Table defaults;
        if (block.has("use")) {
            if (layers != nullptr)
                block.fail("layers", "and 'use' both say what the block holds; give one of them");
            const std::string used = block.text("use");
            const Value* const definition = blocks_ != nullptr ? blocks_->find(used) : nullptr;
            if (definition == nullptr)
                block.fail("use", fmt::format("is \"{0}\", but there is no [blocks.{0}]; add it", used));
            Attributes body(*definition, file_, fmt::format("[blocks.{}]", used));
            layers = body.find("layers");
            defaults = *definition->as<Value::Table>();
            std::erase_if(defaults, [](const auto& entry) { return entry.first == "layers"; });
            check_parameters(defaults, {}, *layers, body);
        }
        std::vector<std::string> parameters; // parameters with defaults
        for (const auto& [key, value] : defaults) parameters.push_back(key);
        std::vector<std::string> known = keys_of_blocks;
        known.insert(known.end(), parameters.begin(), parameters.end());
        check_parameters(given, known, *layers, block);
        if (block.has("repeat") && block.has("each"))
            block.fail("repeat", "and 'each' both say how often; give one of them");
        const bool repeated = block.has("repeat") || block.has("each");
        std::vector<Value::Table> rounds(
            std::size_t(block.whole("repeat", 1, 1000, 1))); // what each is given
        if (block.has("each")) {
            rounds.clear();
            const auto* const list = block.find("each")->as<Value::Array>();
            if (list == nullptr)
                block.fail("each", fmt::format("is {}; give a list of tables, one for each round",
                                               block.find("each")->text()));
            for (const Value& each : *list) {
                const auto* const table = each.as<Value::Table>();
                if (table == nullptr)
                    block.fail("each", fmt::format("holds {}; give a table for each round", each.text()));
                check_parameters(*table, parameters, *layers, block);
                rounds.push_back(*table);
            }
            if (rounds.empty()) block.fail("each", "is empty; give a table for each round");
        }
        int taken = scope.last;
        if (block.has("inputs")) block.fail("inputs", "is for layers; a block takes one 'input'");
        if (const std::vector<int> inputs = inputs_of(block, scope); !inputs.empty()) {
            if (inputs.size() != 1) block.fail("input", "names several layers; a block takes one");
            taken = inputs[0];
        }
        for (std::size_t round = 0; round < rounds.size(); ++round) {
            Scope inner{.prefix = scope.prefix + name + '/' + (repeated ? fmt::format("{}/", round + 1) : ""),
                        .outer = &scope,
                        .input = taken,
                        .last = taken,
                        .depth = scope.depth + 1};
            for (const Value::Table& table :
                 {std::cref(rounds[round]), std::cref(given), std::cref(defaults)})
                inner.parameters.insert(inner.parameters.end(), table.begin(), table.end());
            inner.parameters.emplace_back("round", Value{std::int64_t(round + 1), block.line()});
            inner.parameters.emplace_back("first", Value{round == 0, block.line()});
            expand(*layers, inner);
            taken = inner.last;
        }
        scope.names.emplace(name, taken);
        scope.last = taken;
    }

    std::string free_name(const std::string& kind, Scope& scope) const {
        for (int& number = scope.numbered[kind];;) // after the last one: a name stays taken
            if (const std::string name = fmt::format("{}{}", kind, ++number); scope.own(name) == unknown)
                return name;
    }

    /// The indices of the entries that `input` or `inputs` name.
    std::vector<int> inputs_of(Attributes& entry, const Scope& scope) const {
        if (entry.has("input") && entry.has("inputs"))
            entry.fail("input", "and 'inputs' both say what the layer takes; give one of them");
        std::vector<int> inputs;
        for (const char* key : {"input", "inputs"})
            for (const std::string& from : entry.texts(key)) {
                const int found = scope.find(from);
                if (found == unknown)
                    entry.fail(key, fmt::format("names \"{}\", but no layer before this one has that name; a "
                                                "layer takes what stands before it",
                                                from));
                inputs.push_back(found);
            }
        return inputs;
    }

    void add_layer(const Value& table, Scope& scope) {
        const std::string kind = Attributes(table, file_, "a layer").text("kind");
        const Value whole = with_defaults(table, kind);
        Attributes layer(whole, file_, "a layer");
        std::string name = layer.text("name", "");
        if (name.empty()) name = free_name(kind, scope);
        LayerEntry entry{
            .name = scope.prefix + name, .kind = kind, .inputs = inputs_of(layer, scope), .table = whole};
        if (entry.inputs.empty()) entry.inputs = {scope.last};
        const std::string activation = layer.text("activation", "none");
        list_.entries.push_back(entry);
        if (activation != "none") {
            const std::vector<std::string> known = activation_kinds();
            if (std::ranges::find(known, activation) == known.end())
                Attributes(whole, file_, fmt::format("layer '{}'", entry.name))
                    .fail("activation",
                          fmt::format("is \"{}\"; give one of {}, none", activation, fmt::join(known, ", ")));
            const unsigned line = layer.find("activation")->line;
            Value::Table of_activation{{"kind", Value{activation, line}}};
            list_.entries.push_back({entry.name + '/' + activation,
                                     activation,
                                     {int(list_.entries.size()) - 1},
                                     {std::move(of_activation), line}});
        }
        scope.last = int(list_.entries.size()) - 1;
        scope.names.emplace(name, scope.last);
    }

    std::string file_;
    const Value* blocks_;
    const Value* defaults_;
    std::set<std::string> kinds_; ///< the kinds of all layers
    std::size_t written_ = 0;     ///< entries so far, including those with `when = false`
    LayerList list_;
};

} // namespace

int LayerList::find(const std::string& name) const {
    if (const auto found = names.find(name); found != names.end()) return found->second;
    for (std::size_t i = 0; i < entries.size(); ++i) // layers within blocks, by their full names
        if (entries[i].name == name) return int(i);
    return unknown;
}

void skip_common_keys(Attributes& layer) {
    for (const char* key : {"kind", "name", "input", "inputs", "activation", "when"}) layer.find(key);
}

LayerList expand(Attributes& recipe) { return Expansion(recipe).take(); }

} // namespace towers
