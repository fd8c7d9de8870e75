#include "engine/recipes/recipe_data.h"

#include "backends/error.h"
#include "engine/data/converted.h"
#include "engine/files/text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <utility>

namespace towers {
namespace {

/// 32x32, or 20x30 to 300x400
std::string sizes_of(const PictureRange& pictures) {
    const auto& [least, most] = pictures;
    const std::string smallest = fmt::format("{}x{}", least.height, least.width);
    return least == most ? smallest : fmt::format("{} to {}x{}", smallest, most.height, most.width);
}

/// Why images stored like this do not fit the recipe; or nothing.
std::string find_problem(const Recipe& recipe, const ImageSize& stored) {
    const Shape& input = recipe.model.input;
    if (stored.channels != input.channels)
        return fmt::format("has {} values per pixel, but recipe {} takes {}", stored.channels, recipe.name,
                           input.channels);
    if (recipe.pipeline.tutorial)
        return stored.height >= input.height && stored.width >= input.width
                   ? ""
                   : fmt::format("has images of {}x{}, but recipe {} crops them to {}x{}", stored.height,
                                 stored.width, recipe.name, input.height, input.width);
    for (const Augmentation* each : {&recipe.pipeline.training, &recipe.pipeline.evaluation})
        if (const auto problem = find_problem(*each, stored, input))
            return fmt::format("does not fit the pipeline of recipe {}: '{}' {}", recipe.name,
                               problem->setting, problem->what);
    return "";
}

} // namespace

void check_classes(const Recipe& recipe, const DataInfo& data, const std::string& place) {
    const unsigned classes = recipe.model.classes - recipe.model.label_offset;
    if (data.classes.size() > classes)
        throw InputError(fmt::format(
            "{} has {} classes, but recipe {} tells only {} apart; choose other --data, or train with --set "
            "input.classes={}",
            as_printable(place.empty() ? data.name : place), data.classes.size(), recipe.name, classes,
            data.classes.size() + recipe.model.label_offset));
}

void check_labels(const Recipe& recipe, const DataSource& data, const std::string& place) {
    if (data.label_sets() == nullptr) return;
    if (std::ranges::any_of(recipe.model.heads,
                            [](const LossHead& head) { return head.kind == LossKind::softmax; }))
        throw InputError(fmt::format("{}: a picture may have several labels, but a loss of recipe {} is a "
                                     "softmax, which takes one of each; use --set loss.kind=sigmoid",
                                     as_printable(place.empty() ? data.info().name : place), recipe.name));
}

void check_data(const Recipe& recipe, const DataInfo& data, const std::string& place) {
    check_classes(recipe, data, place);
    if (const std::string problem = find_problem(recipe, data.image); !problem.empty())
        throw InputError(fmt::format("{} {}; choose other --data or another recipe",
                                     as_printable(place.empty() ? data.name : place), problem));
}

std::unique_ptr<DataSource> open_data_for(const Recipe& recipe, DataRequest request) {
    request.image = stored_size(recipe);
    std::unique_ptr<DataSource> data = open_data(request);
    check_classes(recipe, data->info(), request.source);
    check_labels(recipe, *data, request.source);
    const ImageSize stored = data->image_size();
    const char* const split = request.split == Split::train ? "training" : "test";
    if (const auto pictures = data->info().pictures;
        pictures && !(pictures->least == stored && pictures->most == stored))
        spdlog::info("{}: {} {} pictures of {} become images of {}x{}x{} for {}",
                     as_printable(request.source), data->size(), split, sizes_of(*pictures), stored.height,
                     stored.width, stored.channels, recipe.name);
    const ImageSize wanted = taken_size(recipe, stored);
    if (wanted != stored) {
        spdlog::info("{}: {} images of {}x{}x{} are converted to {}x{}x{} for {}",
                     as_printable(request.source), split, stored.height, stored.width, stored.channels,
                     wanted.height, wanted.width, wanted.channels, recipe.name);
        data = std::make_unique<ConvertedSource>(std::move(data), wanted);
    }
    check_data(recipe, data->info(), request.source);
    return data;
}

Sampler make_sampler(const Recipe& recipe, const DataSource& data, std::uint64_t seed, bool shuffle) {
    if (recipe.sampling == Sampling::uniform) return {std::uint32_t(data.size()), seed, shuffle};
    if (data.label_sets() != nullptr)
        throw InputError(
            fmt::format("{}: [training]: 'sampler' is \"balanced\", but an example of {} may have "
                        "several classes; use sampler \"uniform\"",
                        recipe.source, as_printable(data.info().name)));
    const std::vector<std::size_t> counts = data.counts();
    if (const auto none = std::ranges::find(counts, 0u); none != counts.end())
        throw InputError(fmt::format("{}: [training]: 'sampler' is \"balanced\", but class {} of {} has no "
                                     "training examples; give data "
                                     "without that class, or class_weights by name in [[loss]] instead",
                                     recipe.source,
                                     as_printable(data.info().classes[std::size_t(none - counts.begin())]),
                                     as_printable(data.info().name)));
    return {data.labels(), seed, shuffle};
}

ImageSize taken_size(const Recipe& recipe, const ImageSize& stored) {
    const ImageSize size{stored.height, stored.width, recipe.model.input.channels};
    return find_problem(recipe, size).empty() ? size : stored_size(recipe);
}

ImageSize stored_size(const Recipe& recipe) {
    const Shape& image = recipe.model.input;
    using Box = Augmentation::Box;
    const Augmentation& training = recipe.pipeline.training;
    const Augmentation& evaluation = recipe.pipeline.evaluation;
    // What is cropped is stored larger, so that the network sees as much detail as it can.
    const bool middle = evaluation.box == Box::centre || evaluation.box == Box::centre_fit;
    double fraction = middle ? double(evaluation.fraction) : 1;
    if (training.box == Box::random_area) fraction = std::min(fraction, 0.875); // 224 of 256, the usual
    if (recipe.pipeline.tutorial) fraction = 0.75;                              // 24 of 32
    fraction = std::max(fraction, 0.5);
    const auto side = [&](unsigned length) { return unsigned(std::lround(length / fraction)); };
    return {side(image.height), side(image.width), image.channels};
}

} // namespace towers
