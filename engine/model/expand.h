// The layers of a recipe with its blocks written out.
#pragma once

#include "engine/model/attributes.h"

#include <deque>
#include <string>
#include <vector>

namespace towers {

/// One layer, with its parameters filled in.
struct LayerEntry {
    std::string name; ///< whole
    std::string kind;
    std::vector<int> inputs;      ///< earlier entries; -1: the images
    const Value* table = nullptr; ///< its attributes
};

class LayerList {
public:
    /// Writes out [network] and [blocks]. UsageError for unknown blocks, parameters and inputs, names that
    /// come twice, and blocks that hold themselves.
    explicit LayerList(Attributes& recipe);

    const std::vector<LayerEntry>& entries() const { return entries_; }
    /// The entry that this name stands for outside all blocks; -2 if there is none.
    int find(const std::string& name) const;

    /// The keys of a layer's table that are not its attributes.
    static void skip_common_keys(Attributes& layer);

private:
    struct Scope;
    void expand(const Value& layers, Scope& scope);
    void expand_entry(const Value& entry, Scope& scope);
    void add_block(Attributes& block, Scope& scope);
    void add_layer(const Value& table, Attributes& layer, Scope& scope);
    std::string free_name(const std::string& kind, Scope& scope) const;
    Value fill_in(const Value& value, const Scope& scope) const;

    std::string file_;
    const Value* blocks_;
    std::vector<LayerEntry> entries_;
    std::vector<std::pair<std::string, int>> names_; ///< of the outermost scope
    std::deque<Value> filled_in_;                    ///< what the entries' tables point to
};

} // namespace towers
