// Expands a recipe's blocks into a list of layers.
#pragma once

#include "engine/config/attributes.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace towers {

/// One layer, with the values of its block's parameters.
struct LayerEntry {
    std::string name; ///< full name
    std::string kind;
    std::vector<int> inputs; ///< earlier entries; -1: the images
    Value table;             ///< its attributes
};

struct LayerList {
    std::vector<LayerEntry> entries;
    std::unordered_map<std::string, int> names; ///< entries by their names outside all blocks

    /// The index of the entry with this name, or this full name; -2 if there is none.
    int find(const std::string& name) const;
};

/// Expands [network], [blocks] and [defaults]. Everywhere "$classes" stands for [input]'s. Throws UsageError
/// for unknown blocks, parameters and inputs, duplicate names, blocks that contain themselves, and anything
/// that no layer uses.
LayerList expand(Attributes& recipe);

/// Marks the keys of a layer's table that are not its attributes as read.
void skip_common_keys(Attributes& layer);

} // namespace towers
