#include "engine/inference/preview.h"

#include "backends/backend.h"
#include "engine/execution/session.h"
#include "engine/plan/plan.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/images.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace towers {
namespace {

/// The byte whose value in channel `c` of the network's image is `value`.
std::uint8_t byte_of(const Recipe& recipe, const PreviewOptions& options, unsigned c, float value) {
    const Augmentation& augmentation =
        options.distort ? recipe.pipeline.training : recipe.pipeline.evaluation;
    if (recipe.pipeline.tutorial) {
        value = 127.5f + value * 51;
    } else if (augmentation.values == Augmentation::Values::signed_unit) {
        value = (value + 1) * 127.5f;
    } else if (augmentation.values == Augmentation::Values::normalized) {
        value = (value * augmentation.deviation[c] + augmentation.mean[c]) * 255;
    }
    return std::uint8_t(std::clamp(std::lround(value), 0l, 255l));
}

} // namespace

Dataset bring(const DataSource& data, std::span<Example> examples) {
    std::vector<std::uint32_t> records, labels;
    for (std::size_t i = 0; i < examples.size(); ++i) {
        Example& example = examples[i];
        example.slot = std::uint32_t(i);
        example.label = data.labels()[example.record];
        records.push_back(example.record);
        labels.push_back(example.label);
    }
    std::vector<std::uint8_t> images(examples.size() * data.image_size().elements());
    data.read(records, images);
    return {data.info(), std::move(images), std::move(labels)};
}

std::vector<std::uint8_t> preview(const Recipe& recipe, const DataSource& data, std::vector<Example> examples,
                                  const PreviewOptions& options) {
    const ImageSize stored = data.image_size();
    const Shape& size = recipe.model.input;
    const Dataset shown = bring(data, examples);

    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = network_spec(recipe, layout,
                                          {.batch = unsigned(examples.size()),
                                           .stored = stored,
                                           .slots = shown.size(),
                                           .seed = options.seed,
                                           .distort = options.distort});
    Plan plan;
    const TensorId in_examples = plan.tensor("examples", Arena::step, step_examples_offset,
                                             {examples.size(), example_words}, ElementType::uint32);
    TensorId mixes;
    if (!options.mixes.empty())
        mixes = plan.tensor("mixes", Arena::step, StepInputs(examples.size(), true, 0).mixes,
                            {examples.size(), mix_words}, ElementType::uint32);
    const TensorId images = plan_batch(plan, spec, in_examples, mixes).images;
    plan.place();
    const std::unique_ptr<Device> device = open_host_device();
    Session session(*device, Session::Place::host);
    session.hold(plan.bytes());
    session.load(shown);
    session.write(Batch::all(0, examples, {}, {.mixes = options.mixes, .targets = {}, .class_weights = {}}));
    session.run(session.record(plan));

    const std::span<const float> made = session.host<float>(plan.at(images)); // [N, height, width, channels]
    std::vector<std::uint8_t> bytes(made.size());
    const std::size_t plane = std::size_t(size.height) * size.width;
    for (std::size_t i = 0; i < made.size(); ++i) {
        const auto c = unsigned(i % size.channels);
        const std::size_t pixel = i / size.channels % plane, image = i / size.elements();
        bytes[image * size.elements() + c * plane + pixel] = byte_of(recipe, options, c, made[i]);
    }
    return bytes;
}

} // namespace towers
