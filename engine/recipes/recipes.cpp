#include "engine/recipes/recipes.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/files/text.h"
#include "engine/nearest.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace towers {

const std::vector<BuiltinRecipe>& builtin_recipes() {
    static const std::vector<BuiltinRecipe> recipes = {
#include "builtin_recipes.inc" // made by engine/CMakeLists.txt: { "NAME", TEXT }, for each file
    };
    return recipes;
}

bool is_recipe_file(const std::string& name) {
    return name.ends_with(".toml") || name.find('/') != std::string::npos;
}

std::string recipe_name(const std::string& name) {
    return is_recipe_file(name) ? as_utf8(std::filesystem::path(name).stem().string()) : name;
}

RecipeFile find_recipe_file(const std::string& name) {
    if (is_recipe_file(name)) {
        try {
            return {read_file(name), name};
        } catch (const InputError& error) {
            throw UsageError(error.what());
        }
    }
    const auto& all = builtin_recipes();
    const auto found = std::ranges::find(all, name, &BuiltinRecipe::name);
    if (found != all.end()) return {found->text, name + ".toml"};
    std::vector<std::string> names;
    for (const BuiltinRecipe& each : all) names.emplace_back(each.name);
    const std::string meant = nearest(name, names);
    throw UsageError(
        fmt::format("recipe '{}': there is no such recipe{}; choose from {}, or name a file that ends in "
                    ".toml",
                    name, meant.empty() ? "" : fmt::format(", but there is '{}'", meant),
                    listed(all, &BuiltinRecipe::name)));
}

std::string with_changes(const std::string& name, const std::vector<std::string>& changes) {
    std::string text = name;
    for (const std::string& change : changes) text += ' ' + change;
    return text;
}

} // namespace towers
