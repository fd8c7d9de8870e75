// docs/recipes.md says what the program does.
#include "engine/layers/layer.h"
#include "engine/train/describe.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace towers {
namespace {

std::string page() { return test::read_text(test::source_folder() / "docs/recipes.md"); }

std::vector<std::string> examples_in(const std::string& text) {
    const std::string fence = "```toml\n";
    std::vector<std::string> examples;
    for (std::size_t at = 0; (at = text.find(fence, at)) != std::string::npos;) {
        at += fence.size();
        examples.push_back(text.substr(at, text.find("```", at) - at));
    }
    return examples;
}

} // namespace

TEST_CASE("the examples of docs/recipes.md can be trained as they stand") {
    const std::vector<std::string> examples = examples_in(page());
    REQUIRE(examples.size() == 2);
    const Recipe whole = parse_recipe("whole", examples[0], "docs/recipes.md");
    CHECK(memory_of_step(whole, whole.batch).total() > 0);
    // The second example shows only blocks; the first one's other tables complete it.
    const std::string rest = "\n[input]\nshape = [32, 32, 3]\nclasses = 10\n\n" +
                             examples[0].substr(examples[0].find("[pipeline.train]"));
    const Recipe blocks = parse_recipe("blocks", examples[1] + rest, "docs/recipes.md");
    CHECK(memory_of_step(blocks, blocks.batch).total() > 0);
    CHECK(describe_layers(blocks.model)[1].name == "stage1/1/conv1");
}

TEST_CASE("docs/recipes.md names every kind of layer") {
    const std::string text = page();
    for (const std::string& kind : layer_kinds()) {
        CAPTURE(kind);
        CHECK(text.find('`' + kind + '`') != std::string::npos);
    }
}

} // namespace towers
