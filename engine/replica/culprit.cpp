// Which tower a step's loss, finite or not, comes from.
#include "engine/replica/group.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace towers {
namespace {

bool all_finite(std::span<const float> values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

constexpr const char* batch_norm = "a batch norm's sum";

} // namespace

std::vector<float> TowerGroup::losses(const StepResults& results) const {
    const float decay = results.total_loss - results.cross_entropy;
    std::vector<float> losses(threads_.size(), std::numeric_limits<float>::quiet_NaN());
    if (is_alone()) {
        losses[shared_.active[0]->index] = results.total_loss;
        return losses;
    }
    for (const TowerThread* thread : shared_.active)
        losses[thread->index] =
            thread->results.cross_entropy * float(examples_) / float(thread->share) + decay;
    return losses;
}

Culprit TowerGroup::find_culprit(const StepResults& results) const {
    const Culprit of_all{.tower = shared_.active.empty() ? 0 : shared_.active[0]->index,
                         .loss = results.total_loss,
                         .what = "the sum of the towers' losses or gradients",
                         .of_all = true,
                         .stage = 4,
                         .examples = examples_};
    if (shared_.active.empty()) return of_all; // other ranks have towers
    const std::size_t exchanges = shared_.active[0]->exchanges.size();
    const auto loss_of = [](const TowerThread* thread) { return thread->results.cross_entropy; };
    const auto found = [&](const TowerThread* thread, const std::string& what, unsigned stage) {
        Culprit culprit{.tower = thread->index,
                        .loss = loss_of(thread),
                        .what = what,
                        .stage = stage,
                        .examples = examples_};
        if (exchanges > 0) return culprit;
        culprit.first_example = thread->first_example;
        culprit.examples = thread->share;
        return culprit;
    };
    if (is_alone()) {
        Culprit culprit = found(shared_.active[0], "a gradient", 3);
        culprit.loss = results.total_loss;
        return culprit;
    }
    // An exchange spreads values that are not finite to all towers; the first tower that gave such a value is
    // the culprit.
    const auto first_to_spread = [&](Merge merge) -> const TowerThread* {
        for (std::size_t k = 0; k < exchanges; ++k)
            for (const TowerThread* thread : shared_.active)
                if (thread->exchanges[k]->merge == merge &&
                    !std::ranges::all_of(thread->exchanges[k]->given, all_finite))
                    return thread;
        return nullptr;
    };
    // In the order of the step: moments, losses, then gradients, which a loss scale may make infinite on
    // towers that are not to blame.
    if (const TowerThread* thread = first_to_spread(Merge::moments)) return found(thread, batch_norm, 0);
    for (const TowerThread* thread : shared_.active)
        if (!std::isfinite(loss_of(thread))) return found(thread, "the loss", 1);
    if (const TowerThread* thread = first_to_spread(Merge::sum)) return found(thread, batch_norm, 2);
    for (const TowerThread* thread : shared_.active)
        for (const VariableSlot& slot : layout_.variables)
            if (!slot.variable.frozen &&
                !all_finite(part(std::span<const float>(thread->tower->staged_gradients()),
                                 {slot.range.offset, slot.variable.elements() * sizeof(float)})))
                return found(thread, "the gradient of " + slot.variable.name, 3);
    return of_all;
}

} // namespace towers
