// The built-in recipes: the TOML files of this folder, embedded in the program.
#pragma once

#include <vector>

namespace towers {

struct BuiltinRecipe {
    const char* name; ///< the file's, without .toml
    const char* text;
};

/// Sorted by name.
const std::vector<BuiltinRecipe>& builtin_recipes();

} // namespace towers
