// What a user would lose: source that Python reads and a person too. That it computes the same is shown by
// tests/peers/export_agree.py.
#include "engine/export/torch.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

std::string source_of(const Recipe& recipe, bool averages = true) {
    const StateLayout layout = layout_of(recipe);
    const std::vector<float> state(layout.variable_bytes / sizeof(float));
    return torch_source(inference_graph(recipe, layout, state, {}), averages, "model.ckpt-1.safetensors",
                        "1.2.3");
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the tutorial's network as a PyTorch module, line by line") {
    const std::string source = source_of(find_recipe("cifar10-tutorial"));
    CAPTURE(source);
    for (const char* line : {
             "        self.conv1 = nn.Conv2d(3, 64, 5, padding=2)\n",
             "        self.local3 = nn.Linear(2304, 384)\n",
             "        x = F.relu(self.conv1(x))\n",
             "        x = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 3, 2)\n", // SAME
             "        x = F.local_response_norm(x, 9, alpha=0.001, beta=0.75, k=1)\n",
             "        x = F.relu(self.local3(x.permute(0, 2, 3, 1).flatten(1)))\n",
             "        return self.softmax_linear(x)\n",
             "    x = x[:, :, 4:28, 4:28]  # the middle\n",
             "    def load(self, path, averages=True):\n",
         })
        CHECK_MESSAGE(contains(source, line), line);
    CHECK(contains(source_of(find_recipe("cifar10-tutorial"), false), "averages=False"));
}

TEST_CASE("every built-in recipe's PyTorch source has all its layers with variables") {
    for (const BuiltinRecipe& each : builtin_recipes()) {
        CAPTURE(each.name);
        const Recipe recipe = find_recipe(each.name);
        const std::string source = source_of(recipe);
        const Model model = recipe.model.for_evaluation();
        for (const Variable& variable : model.variables()) {
            const std::string layer = model.nodes[std::size_t(variable.node)].name;
            CAPTURE(layer);
            CHECK(contains(source, "    \"" + layer + "\": \""));
        }
    }
}

TEST_CASE("layers may have names that Python or PyTorch use") {
    const Recipe recipe = parse_recipe("names", R"(
[input]
shape = [8, 8, 3]
classes = 10
[network]
layers = [
  { name = "class", kind = "conv2d", filters = 4, kernel = 3 },
  { name = "1x1", kind = "conv2d", filters = 4, kernel = 1 },
  { name = "train", kind = "dense", units = 8 },
  { name = "a-b", kind = "dense", units = 8 },
  { name = "a_b", kind = "dense", units = 8 },
  { name = "say\"so", kind = "dense", units = 10 },
]
[pipeline]
[optimizer]
kind = "sgd"
learning_rate = 0.1
[training]
batch = 4
steps = 1
)",
                                       "names.toml");
    const std::string source = source_of(recipe);
    CAPTURE(source);
    for (const char* line : {"self.layer_class = nn.Conv2d", "self.layer_1x1 = nn.Conv2d",
                             "self.layer_train = nn.Linear", "self.a_b = nn.Linear", "self.a_b_ = nn.Linear",
                             "self.say_so = nn.Linear", "    \"say\\\"so\": \"say_so\",\n"})
        CHECK_MESSAGE(contains(source, line), line);
}

} // namespace towers
