#include "engine/replay/replay.h"

#include "engine/data/source.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/replay/side.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

namespace towers {
namespace {

/// Finds numbers in a tensor that are not finite; if only a part is written, looks only there.
std::optional<NotFinite> find_in(std::span<const float> values, const TensorShape& shape, bool whole) {
    NotFinite found{.shape = shape};
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isfinite(values[i]) || (!whole && std::bit_cast<std::uint32_t>(values[i]) == unwritten))
            continue;
        if (found.count++ > 0) continue;
        found.index = index_in(shape, i);
        found.value = std::isnan(values[i]) ? "nan" : values[i] > 0 ? "inf" : "-inf";
    }
    if (found.count == 0) return std::nullopt;
    return found;
}

/// The first trained variable, in the order of the layers, that is not finite already.
std::optional<NotFinite> find_in_state(const StateLayout& layout, std::span<const float> state) {
    std::optional<NotFinite> first;
    for (const VariableSlot& slot : layout.variables) { // last layer first
        if (slot.variable.role != Role::trained) continue;
        if (auto found = find_in(part(state, slot.range), slot.variable.shape, true)) {
            found->tensor = slot.variable.name;
            first = std::move(found);
        }
    }
    return first;
}

/// The step's own images, in the slots that its examples name.
Dataset images_of(const LoneStep& step) {
    return {{.name = {}, .classes = {}, .image = step.stored},
            step.images,
            std::vector<std::uint32_t>(step.batch.all().size())};
}

Plan plan_of(const Recipe& recipe, const StateLayout& layout, const LoneStep& step,
             std::uint64_t largest_allocation) {
    const NetworkSpec spec = network_spec(recipe, layout,
                                          {.batch = unsigned(step.batch.examples.size()),
                                           .global_batch = step.global_batch,
                                           .stored = step.stored,
                                           .slots = step.batch.all().size(),
                                           .seed = step.seed,
                                           .distort = step.distort,
                                           .scales_loss = step.before.loss_scale.has_value(),
                                           .largest_allocation = largest_allocation});
    if (spec.batch < spec.global_batch) return plan_shared_step(spec).plan;
    UpdateSpec update = update_spec(recipe, layout);
    update.scales_loss = spec.scales_loss;
    return plan_single_step(spec, update).plan;
}

/// Whether numbers that are not finite in this tensor mean that the step has diverged.
bool decides(const PlannedTensor& tensor) {
    return tensor.arena == Arena::gradients || tensor.arena == Arena::results;
}

} // namespace

Replay replay(Device& device, const Recipe& recipe, const LoneStep& step) {
    const StateLayout layout = layout_of(recipe);
    const Plan plan = plan_of(recipe, layout, step, device.info().largest_allocation);
    const std::vector<std::vector<WrittenTensor>> levels = written_in(plan);
    ParitySide side(device, plan, images_of(step), window_bytes(levels));
    StepNumbers numbers = numbers_of_update(recipe, step.learning_rate, step.before.step + 1);
    if (step.before.loss_scale) numbers.loss_scale = step.before.loss_scale->scale;
    const std::vector<Example> examples = step.batch.all();
    side.prepare(step.before.state, numbers, step.batch.view(examples));

    Replay result{.first = find_in_state(layout, step.before.state)};
    for (std::size_t level = 0; level < levels.size() && !result.diverges; ++level) {
        side.start(level, levels[level]);
        side.finish();
        for (const WrittenTensor& written : levels[level]) {
            if (written.planned->type != ElementType::float32) continue;
            const PlannedTensor& tensor = *written.planned;
            std::optional<NotFinite> found =
                find_in(side.elements<float>(written), tensor.shape, written.whole);
            if (!found) continue;
            result.diverges = result.diverges || decides(tensor);
            if (result.first) continue;
            found->tensor = tensor.name;
            found->operation = written.operation->name;
            found->kernel = kernel_name(*written.operation);
            result.first = std::move(found);
        }
    }
    return result;
}

std::string describe(const NotFinite& found) {
    return fmt::format("tensor '{}' {}, {} of {} numbers, the first at [{}]: {}", found.tensor,
                       found.operation.empty() ? "before the step" : "of " + found.operation, found.count,
                       elements_of(found.shape), fmt::join(found.index, ", "), found.value);
}

} // namespace towers
