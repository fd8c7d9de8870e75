#include "engine/recipes/recipes.h"

namespace towers {

const std::vector<BuiltinRecipe>& builtin_recipes() {
    static const std::vector<BuiltinRecipe> recipes = {
#include "builtin_recipes.inc" // made by engine/CMakeLists.txt: { "NAME", TEXT }, for each file
    };
    return recipes;
}

} // namespace towers
