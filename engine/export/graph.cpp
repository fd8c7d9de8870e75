#include "engine/export/graph.h"

#include "backends/error.h"
#include "engine/recipes/recipe_data.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>

namespace towers {
namespace {

Preparation tutorial_preparation(const Shape& input, const ImageSize& picture) {
    if (picture.height < input.height || picture.width < input.width)
        throw UsageError(fmt::format("pictures of {}x{} are smaller than the {}x{} that the recipe's "
                                     "pipeline cuts out of them; take larger ones",
                                     picture.height, picture.width, input.height, input.width));
    return {.picture = picture,
            .top = (picture.height - input.height) / 2,
            .left = (picture.width - input.width) / 2,
            .height = input.height,
            .width = input.width,
            .standardizes = true,
            .least_deviation = 1 / std::sqrt(float(input.elements()))};
}

Preparation preparation_of(const Recipe& recipe, const PictureSize& pictures) {
    const Shape& input = recipe.model.input;
    ImageSize picture = stored_size(recipe);
    if (pictures.size) {
        picture.height = (*pictures.size)[0];
        picture.width = (*pictures.size)[1];
    }
    if (pictures.prepared) picture = {input.height, input.width, input.channels};
    if (recipe.pipeline.tutorial) return tutorial_preparation(input, picture);

    Augmentation evaluation = recipe.pipeline.evaluation;
    if (pictures.prepared) {
        Augmentation whole;
        whole.values = evaluation.values;
        whole.mean = evaluation.mean;
        whole.deviation = evaluation.deviation;
        evaluation = whole;
    }
    if (const char* const part = random_part(evaluation))
        throw UsageError(
            fmt::format("recipe {}: its [pipeline.evaluate] has '{}', which changes each picture "
                        "in another way, and a model cannot; give --prepared for a model that "
                        "takes pictures after such changes",
                        recipe.name, part));
    const ImageSize image{input.height, input.width, input.channels};
    if (const auto problem = find_problem(evaluation, picture, image))
        throw UsageError(fmt::format("pictures of {}x{} do not fit the pipeline of recipe {}: '{}' {}",
                                     picture.height, picture.width, recipe.name, problem->setting,
                                     problem->what));
    const AugmentationLaunches launches = augmentation_launches(evaluation, picture, image, 0, 1);
    const DrawAugmentationsParams& draw = launches.draw;
    const AugmentImagesParams& images = launches.images;
    if (evaluation.antialias && (draw.box_height > image.height || draw.box_width > image.width))
        throw UsageError(
            fmt::format("recipe {}: its [pipeline.evaluate] has 'antialias', which exported models "
                        "do not do; give --prepared for a model that takes pictures after it",
                        recipe.name));
    return {.picture = picture,
            .top = (picture.height - draw.box_height) / 2,
            .left = (picture.width - draw.box_width) / 2,
            .height = draw.box_height,
            .width = draw.box_width,
            .centre = {images.centre_r, images.centre_g, images.centre_b},
            .scale = {images.scale_r, images.scale_g, images.scale_b}};
}

} // namespace

bool InferenceGraph::has(const std::string& name) const {
    return std::ranges::find(variables, name, &GraphVariable::name) != variables.end();
}

const GraphVariable& InferenceGraph::variable(const std::string& name) const {
    const auto found = std::ranges::find(variables, name, &GraphVariable::name);
    if (found == variables.end()) throw std::logic_error("the graph has no variable " + name);
    return *found;
}

InferenceGraph inference_graph(const Recipe& recipe, const StateLayout& layout,
                               std::span<const float> variables, const PictureSize& pictures) {
    const Model model = recipe.model.for_evaluation();
    InferenceGraph graph{.recipe = recipe.name,
                         .description = recipe.description,
                         .preparation = preparation_of(recipe, pictures),
                         .input = model.input,
                         .logits = std::size_t(model.heads[0].node),
                         .logit_scale = model.heads[0].logit_scale,
                         .kind = model.heads[0].kind,
                         .classes = model.classes,
                         .label_offset = model.label_offset};
    for (const Node& node : model.nodes) {
        std::vector<Shape> in = model.input_shapes(node);
        Computation computation = node.layer->computation(in);
        graph.layers.push_back({node.name, node.kind, node.inputs, std::move(in), node.output, computation});
    }
    for (const Variable& variable : model.variables())
        graph.variables.push_back(
            {variable.name, variable.shape,
             part(variables, layout.find(variable.name).range).first(variable.elements())});
    return graph;
}

} // namespace towers
