// The recipes that have names: the built-in ones, TOML files of this folder embedded in the program, and
// files.
#pragma once

#include <string>
#include <vector>

namespace towers {

struct BuiltinRecipe {
    const char* name; ///< the file's, without .toml
    const char* text;
};

/// Sorted by name.
const std::vector<BuiltinRecipe>& builtin_recipes();

/// Whether `name` is a path and not a built-in recipe's name.
bool is_recipe_file(const std::string& name);

/// A recipe's name: for a file, its name without folder and .toml, made valid UTF-8.
std::string recipe_name(const std::string& name);

/// The text of a recipe that find_recipe() would read, and its file's name for messages.
struct RecipeFile {
    std::string text, source;
};
RecipeFile find_recipe_file(const std::string& name);

/// `NAME KEY=VALUE ...`, for reports.
std::string with_changes(const std::string& name, const std::vector<std::string>& changes);

} // namespace towers
