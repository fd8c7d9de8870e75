// What a user would lose: a model that other programs read, with every variable in its place.
#include "engine/export/onnx.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/export/graph.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"
#include "tests/engine/export/proto.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>

namespace towers {
namespace {

/// A recipe and values that tell each place of its variables from the others.
struct Exported {
    Recipe recipe;
    StateLayout layout = layout_of(recipe);
    std::vector<float> variables = std::vector<float>(layout.variable_bytes / sizeof(float));

    explicit Exported(Recipe of) : recipe(std::move(of)) {
        for (std::size_t i = 0; i < variables.size(); ++i) variables[i] = float(i % 1'000'003);
    }
    InferenceGraph graph(const PictureSize& pictures = {}) const {
        return inference_graph(recipe, layout, variables, pictures);
    }
};

std::string onnx_of(const InferenceGraph& graph) {
    const test::TemporaryFolder folder;
    export_onnx(graph, folder / "model.onnx", "1.2.3");
    return read_file(folder / "model.onnx");
}

Recipe fixture() { return find_recipe((test::source_folder() / "tests/fixtures/layers.toml").string()); }

/// Each input of a node is a tensor, the picture, or an output of an earlier node.
void check_connected(const test::OnnxModel& model) {
    std::set<std::string> known{"", "images"};
    for (const auto& [name, tensor] : model.tensors) CHECK(known.insert(name).second);
    std::set<std::string> names;
    for (const test::OnnxNode& node : model.nodes) {
        CAPTURE(node.name);
        CHECK(names.insert(node.name).second);
        for (const std::string& input : node.inputs) CHECK(known.contains(input));
        for (const std::string& output : node.outputs) CHECK(known.insert(output).second);
    }
    for (const std::string& output : model.outputs) CHECK(known.contains(output));
}

/// The exported tensor has the variable's values: filters come first in a convolution's.
void check_variable(const GraphVariable& variable, const test::OnnxTensor& tensor) {
    const std::vector<std::int64_t> shape(variable.shape.begin(), variable.shape.end());
    REQUIRE(tensor.type == 1);
    REQUIRE(tensor.raw.size() == variable.values.size_bytes());
    const bool filters = shape.size() == 4;
    CHECK(tensor.shape == (filters ? std::vector{shape[3], shape[2], shape[0], shape[1]} : shape));
    const std::size_t step = std::max<std::size_t>(variable.values.size() / 97, 1);
    for (std::size_t i = 0; i < variable.values.size(); i += step) {
        std::size_t place = i;
        if (filters) {
            const std::size_t out = variable.shape[3], in = variable.shape[2],
                              window = variable.shape[0] * variable.shape[1];
            place = (i % out * in + i / out % in) * window + i / out / in;
        }
        REQUIRE(tensor.at(place) == variable.values[i]);
    }
}

} // namespace

TEST_CASE("every built-in recipe leaves as ONNX with all its variables") {
    for (const BuiltinRecipe& each : builtin_recipes()) {
        CAPTURE(each.name);
        std::vector<std::string> changes;
        if (std::string(each.name) == "vgg16-bn") changes = {"input.shape=[32,32,3]"}; // else 550 MB
        const Exported exported(find_recipe(each.name, changes));
        const InferenceGraph graph = exported.graph();
        const std::string file = onnx_of(graph);
        const test::OnnxModel model = test::OnnxModel::read(file);
        check_connected(model);
        CHECK(model.inputs == std::vector<std::string>{"images"});
        CHECK(model.outputs == std::vector<std::string>{"logits", "probabilities"});
        CHECK(graph.variables.size() == exported.recipe.model.for_evaluation().variables().size());
        for (const GraphVariable& variable : graph.variables) {
            CAPTURE(variable.name);
            REQUIRE(model.tensors.contains(variable.name));
            check_variable(variable, model.tensors.at(variable.name));
        }
    }
}

TEST_CASE("every kind of layer leaves as ONNX, as a node with the layer's name") {
    const Exported exported(fixture());
    const InferenceGraph graph = exported.graph();
    const std::string file = onnx_of(graph);
    const test::OnnxModel model = test::OnnxModel::read(file);
    check_connected(model);
    std::set<std::string> kinds;
    for (const GraphLayer& layer : graph.layers) {
        CAPTURE(layer.name);
        kinds.insert(layer.kind);
        const bool gone = layer.kind == "dropout" || layer.kind == "flatten"; // nothing, or part of the next
        CHECK((model.find(layer.name) != nullptr) == !gone);
    }
    for (const std::string& kind : layer_kinds()) {
        CAPTURE(kind);
        CHECK(kinds.contains(kind)); // a new kind needs a layer in tests/fixtures/layers.toml
    }
}

TEST_CASE("ONNX's own conventions: LRN's alpha, pads, groups") {
    const std::string file = onnx_of(Exported(fixture()).graph());
    const test::OnnxModel model = test::OnnxModel::read(file);
    const auto wholes = [&](const char* node, const char* attribute) {
        const test::Message& of = model.find(node)->attributes.at(attribute);
        const auto [first, last] = of.wholes.equal_range(8);
        std::vector<std::uint64_t> all;
        std::transform(first, last, std::back_inserter(all), [](const auto& each) { return each.second; });
        return all;
    };
    CHECK(model.find("lrn")->attributes.at("size").whole(3) == 5);
    test::OnnxTensor alpha{.raw = model.find("lrn")->attributes.at("alpha").text(2)};
    CHECK(alpha.at(0) == doctest::Approx(0.5));                                 // 0.1 a channel, of 5
    CHECK(wholes("grouped", "pads") == std::vector<std::uint64_t>{2, 0, 1, 0}); // top, left, bottom, right
    CHECK(wholes("grouped", "dilations") == std::vector<std::uint64_t>{2, 1});
    CHECK(model.find("grouped")->attributes.at("group").whole(3) == 4);
    CHECK(model.find("mean1")->attributes.at("count_include_pad").whole(3) == 1);
    CHECK(model.find("mean2")->attributes.at("count_include_pad").whole(3) == 0);
    CHECK(wholes("mean2", "pads") == std::vector<std::uint64_t>{0, 1, 0, 1}); // SAME
}

TEST_CASE("pictures are cropped and resized as the recipe's evaluation does it") {
    const Preparation tutorial = Exported(find_recipe("cifar10-tutorial")).graph().preparation;
    CHECK(tutorial.picture == ImageSize{32, 32, 3});
    CHECK(tutorial.standardizes);
    CHECK(std::tuple(tutorial.top, tutorial.left, tutorial.height, tutorial.width) ==
          std::tuple(4, 4, 24, 24));

    const Exported inception(find_recipe("inception-v3"));
    const Preparation middle = inception.graph().preparation;
    CHECK(middle.picture == ImageSize{342, 342, 3});
    CHECK(std::tuple(middle.top, middle.height) == std::tuple(21, 300)); // resized to 299
    const Preparation prepared = inception.graph({.prepared = true}).preparation;
    CHECK(prepared.picture == ImageSize{299, 299, 3});
    CHECK(!prepared.crops());
    CHECK(prepared.scale[0] == doctest::Approx(1 / 127.5));
    CHECK(inception.graph({.size = {{100, 200}}}).preparation.picture == ImageSize{100, 200, 3});
    CHECK_THROWS_AS(Exported(find_recipe("cifar10-tutorial")).graph({.size = {{23, 32}}}), UsageError);
}

TEST_CASE("an evaluation that changes pictures at random is refused, unless pictures come prepared") {
    const Exported random(find_recipe("cifar10-fast", {"pipeline.evaluate.flip=true"}));
    CHECK_THROWS_AS(random.graph(), UsageError);
    CHECK(random.graph({.prepared = true}).preparation.shifts());
    const Exported drawn(find_recipe("cifar10-fast", {"pipeline.evaluate.rand_augment={}"}));
    CHECK_THROWS_AS(drawn.graph(), UsageError);
}

TEST_CASE("an evaluation that averages over larger pictures is refused, unless pictures come prepared") {
    const Exported averaging(find_recipe("inception-v3", {"pipeline.evaluate.antialias=true"}));
    CHECK_THROWS_AS(averaging.graph(), UsageError);
    CHECK(!averaging.graph({.prepared = true}).preparation.crops());
    CHECK(averaging.graph({.size = {{299, 299}}}).preparation.picture == ImageSize{299, 299, 3});
}

} // namespace towers
