// Expands a recipe's blocks into a list of layers.
#pragma once

#include "engine/config/attributes.h"

#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace towers {

/// One layer, with the values of its block's parameters.
struct LayerEntry {
    std::string name; ///< full name
    std::string kind;
    std::vector<int> inputs;      ///< earlier entries; -1: the images
    const Value* table = nullptr; ///< its attributes
};

class LayerList {
public:
    /// Expands [network], [blocks] and [defaults]. Throws UsageError for unknown blocks, parameters and
    /// inputs, duplicate names, blocks that contain themselves, and anything that no layer uses.
    explicit LayerList(Attributes& recipe);

    const std::vector<LayerEntry>& entries() const { return entries_; }
    /// The index of the entry with this name outside all blocks; -2 if there is none.
    int find(const std::string& name) const;

    /// Marks the keys of a layer's table that are not its attributes as read.
    static void skip_common_keys(Attributes& layer);

private:
    struct Scope;
    void expand(const Value& layers, Scope& scope);
    void expand_entry(const Value& entry, Scope& scope);
    void add_block(Attributes& block, Scope& scope);
    void add_layer(const Value& table, Scope& scope);
    /// The indices of the entries that `input` or `inputs` name.
    std::vector<int> inputs_of(Attributes& entry, const Scope& scope) const;
    std::string free_name(const std::string& kind, Scope& scope) const;
    Value fill_in(const Value& value, const Scope& scope) const;
    /// The table with the defaults of its kind.
    Value with_defaults(const Value& table, const std::string& kind);
    void check_defaults() const;
    /// Throws: this layer is one too many.
    [[noreturn]] void refuse(const Value& layer) const;
    /// Refuses keys that are neither `known` nor used in the block's layers, and suggests a similar known
    /// key.
    void check_parameters(const Value::Table& given, const std::vector<std::string>& known,
                          const Value& layers, const Attributes& block) const;

    std::string file_;
    const Value* blocks_;
    const Value* defaults_;
    std::set<std::string> kinds_; ///< the kinds of all layers
    std::size_t written_ = 0;     ///< entries so far, including those with `when = false`
    std::vector<LayerEntry> entries_;
    std::unordered_map<std::string, int> names_; ///< of the outermost scope
    std::deque<Value> filled_in_;                ///< what the entries' tables point to
};

} // namespace towers
