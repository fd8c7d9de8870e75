#include "engine/layers/layer.h"
#include "engine/recipes/recipe.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <set>

namespace towers {

TEST_CASE("layers of a family have one input and keep its elements, and only the others multiply") {
    const Model model = find_recipe((test::source_folder() / "tests/fixtures/layers.toml").string()).model;
    std::set<LayerFamily> found;
    for (const Node& node : model.nodes) {
        CAPTURE(node.name);
        const LayerFamily family = family_of(node.kind);
        found.insert(family);
        if (family == LayerFamily::other) continue;
        const std::vector<Shape> inputs = model.input_shapes(node);
        REQUIRE(inputs.size() == 1);
        CHECK(node.output.elements() == inputs[0].elements());
        CHECK(node.layer->flop(inputs) == 0);
        CHECK(node.layer->variables(inputs).empty() == (family != LayerFamily::normalization));
    }
    CHECK(found.size() == 4);
}

} // namespace towers
