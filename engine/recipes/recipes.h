// The recipes that the program knows by name: the TOML files of this folder, embedded.
#pragma once

#include <vector>

namespace towers {

struct BuiltinRecipe {
    const char* name; ///< the file's, without .toml
    const char* text;
};

/// In the order of their names.
const std::vector<BuiltinRecipe>& builtin_recipes();

} // namespace towers
