#include "engine/step/images.h"

#include "backends/error.h"

#include <fmt/format.h>

namespace towers {
namespace {

void plan_tutorial(Plan& plan, const NetworkSpec& spec, TensorId records, TensorId examples,
                   const BatchTensors& batch) {
    plan.add("images", kernels::distort_images,
             {.records = records,
              .examples = examples,
              .images = batch.images,
              .batch_labels = batch.labels,
              .seed_low = uint(spec.seed),
              .seed_high = uint(spec.seed >> 32),
              .count = spec.batch,
              .height = spec.stored.height,
              .width = spec.stored.width,
              .crop_height = spec.model->input.height,
              .crop_width = spec.model->input.width,
              .distort = spec.distort ? 1u : 0u});
}

/// Another tensor of the images' shape
TensorId like(Plan& plan, TensorId images, std::string name) {
    return plan.activation(std::move(name), plan.at(images).shape);
}

/// From the images made so far to `images`, by way of a tensor for each operation
void plan_operations(Plan& plan, AugmentationLaunches& launches, TensorId examples, TensorId draws,
                     TensorId made, TensorId images) {
    DrawOperationsParams& draw = launches.operations;
    const TensorId operations =
        plan.activation("operations", {draw.count, std::size_t(OPERATION_SLOTS(draw)) * OPERATION_DRAWS, 4});
    draw.examples = examples;
    draw.draws = draws;
    draw.operations = operations;
    plan.add("operations", kernels::draw_operations, draw);
    for (TransformImagesParams& p : launches.transforms) {
        const std::string name = fmt::format("image operation {}", p.slot + 1);
        const bool last = p.slot + 1 == p.slots;
        p.x = made;
        p.operations = operations;
        p.draws = draws;
        p.y = made = last ? images : like(plan, images, "images after " + name);
        plan.add(name, kernels::transform_images, p);
    }
}

void plan_erasing(Plan& plan, AugmentationLaunches& launches, TensorId examples, TensorId images) {
    DrawErasingParams& draw = launches.draw_erasing;
    const TensorId boxes = plan.activation("erased boxes", {draw.count, draw.most, ERASING_DRAWS, 4});
    draw.examples = examples;
    draw.boxes = boxes;
    plan.add("erased boxes", kernels::draw_erasing, draw);
    EraseBoxesParams& p = launches.erase;
    p.examples = examples;
    p.boxes = boxes;
    p.images = images;
    plan.add("erasing", kernels::erase_boxes, p);
}

void plan_augmentation(Plan& plan, const NetworkSpec& spec, TensorId records, TensorId examples,
                       const BatchTensors& batch) {
    const Augmentation& augmentation = spec.distort ? spec.pipeline->training : spec.pipeline->evaluation;
    const Shape& image = spec.model->input;
    if (const auto problem = find_problem(augmentation, spec.stored, image))
        throw UsageError(fmt::format("the recipe's pipeline: '{}' {}", problem->setting, problem->what));
    AugmentationLaunches launches =
        augmentation_launches(augmentation, spec.stored, image, spec.seed, spec.batch);
    const TensorId draws = plan.activation("draws", {spec.batch, AUGMENT_DRAWS, 4});
    launches.draw.examples = examples;
    launches.draw.draws = draws;
    plan.add("draws", kernels::draw_augmentations, launches.draw);
    TensorId sums;
    if (launches.needs_sums) {
        sums = plan.activation("grey sums", {spec.batch, GREY_CHUNKS}, ElementType::fixed64);
        launches.sums.records = records;
        launches.sums.examples = examples;
        launches.sums.draws = draws;
        launches.sums.sums = sums;
        plan.add("grey sums", kernels::grey_sums, launches.sums);
    }
    AugmentImagesParams& p = launches.images;
    const TensorId made =
        launches.needs_operations() ? like(plan, batch.images, "images before operations") : batch.images;
    p.records = records;
    p.examples = examples;
    p.draws = draws;
    p.grey_sums = sums;
    p.images = made;
    p.batch_labels = batch.labels;
    plan.add("images", kernels::augment_images, p);
    if (launches.needs_operations()) plan_operations(plan, launches, examples, draws, made, batch.images);
    if (launches.needs_erasing) plan_erasing(plan, launches, examples, batch.images);
}

} // namespace

unsigned examples_to_make(const NetworkSpec& spec) {
    const bool has_strangers = spec.share != 0 || (spec.global_batch != 0 && spec.batch != spec.global_batch);
    return spec.mixes && has_strangers ? 2 * spec.batch : spec.batch;
}

BatchTensors plan_batch(Plan& plan, const NetworkSpec& spec, TensorId examples, TensorId mixes) {
    if (mixes) {
        NetworkSpec made = spec;
        made.batch = examples_to_make(spec);
        made.mixes = false;
        const BatchTensors unmixed = plan_batch(plan, made, examples);
        const Shape& image = spec.model->input;
        const TensorId images =
            plan.activation("mixed images", {spec.batch, image.height, image.width, image.channels});
        plan.add("mix", kernels::mix_images,
                 {.images = unmixed.images,
                  .mixes = mixes,
                  .mixed = images,
                  .count = spec.batch,
                  .height = image.height,
                  .width = image.width,
                  .channels = image.channels,
                  .apart = made.batch > spec.batch ? 1u : 0u});
        return {images, unmixed.labels};
    }
    const std::size_t bytes = spec.slots * spec.stored.elements();
    if (bytes > most_record_bytes)
        throw UsageError(
            fmt::format("there are {} bytes of images for a device, and kernels address at most {}; use "
                        "fewer or smaller images, or train with --feed streamed",
                        bytes, most_record_bytes));
    const TensorId records = plan.tensor("records", Arena::records, 0, {bytes}, ElementType::uint8);
    const Shape& image = spec.model->input;
    const BatchTensors batch{
        plan.activation("images", {spec.batch, image.height, image.width, image.channels}),
        plan.activation("labels", {spec.batch}, ElementType::uint32)};
    spec.pipeline->tutorial ? plan_tutorial(plan, spec, records, examples, batch)
                            : plan_augmentation(plan, spec, records, examples, batch);
    return batch;
}

} // namespace towers
