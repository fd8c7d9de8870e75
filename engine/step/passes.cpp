#include "engine/step/passes.h"

#include "engine/data/example.h"
#include "engine/step/builder.h"

#include <fmt/format.h>
#include <stdexcept>
#include <vector>

namespace towers {
namespace {

/// Forward and backward of one micro-batch, with inputs and results in Arena::micro_batch.
struct Pass {
    Plan plan;
    unsigned size;
    TensorId gradients, examples;
    std::vector<TensorId> losses; ///< by head
};

Pass plan_pass_of(const NetworkSpec& whole, unsigned size) {
    NetworkSpec spec = whole;
    spec.batch = size;
    spec.share = whole.batch;
    if (spec.global_batch == 0) spec.global_batch = whole.batch;
    Pass pass{.size = size};
    // The gradients come first, as in Arena::gradients.
    pass.gradients = pass.plan.reserve("micro-batch's gradients", Arena::micro_batch,
                                       {spec.layout->updated_bytes / sizeof(float)});
    pass.examples =
        pass.plan.reserve("examples", Arena::micro_batch, {size, example_words}, ElementType::uint32);
    pass.losses = plan_pass(pass.plan, spec, pass.examples, Arena::micro_batch, Arena::micro_batch);
    finish(pass.plan, spec);
    return pass;
}

/// Each head's losses in Arena::results, in the order of the examples, at the same place in every plan.
std::vector<TensorId> reserve_losses(Plan& plan, const NetworkSpec& spec) {
    std::vector<TensorId> lists;
    for (std::size_t head = 0; head < spec.model->heads.size(); ++head)
        lists.push_back(plan.reserve(fmt::format("losses {}", head), Arena::results, {spec.batch}));
    return lists;
}

/// Copies the share's examples from `first` on.
void receive_examples(Plan& plan, const Pass& pass, std::size_t first) {
    plan.copy("examples in",
              plan.tensor("share's examples", Arena::staged_step,
                          step_examples_offset + first * sizeof(Example), {pass.size, example_words},
                          ElementType::uint32),
              plan.shared(pass.plan, pass.examples));
}

/// Adds the results of a pass, whose examples begin at `first`, to those of the passes before.
void collect(Plan& plan, const Pass& pass, std::size_t first, const NetworkSpec& spec,
             std::span<const TensorId> losses) {
    const ArenaRange variables = spec.layout->updated();
    const TensorId own = plan.shared(pass.plan, pass.gradients);
    const TensorId sum = plan.tensor("sum of the gradients", Arena::gradients, 0, {plan.elements(own)});
    if (first == 0)
        plan.copy("first gradients", own, sum);
    else
        plan.add("further gradients", kernels::accumulate_gradients,
                 {.x = own, .sum = sum, .quads = quads(variables)});
    for (std::size_t head = 0; head < losses.size(); ++head)
        plan.copy(fmt::format("losses {}", head), plan.shared(pass.plan, pass.losses[head]),
                  plan.part("losses", losses[head], first, pass.size));
}

} // namespace

LossList plan_passes(const NetworkSpec& spec, std::span<const unsigned> sizes, TrainingPlan& training) {
    if (spec.model->joining_layer() != nullptr)
        throw std::logic_error("plan: micro-batches of a layer that takes the whole global batch");
    std::vector<Pass> passes;
    for (const unsigned size : sizes)
        if (passes.empty() || passes.back().size != size) passes.push_back(plan_pass_of(spec, size));
    const Pass* last = nullptr;
    std::size_t begin = 0; // of the last pass's examples
    std::vector<Plan> between;
    for (const unsigned size : sizes) {
        Plan& plan = between.emplace_back();
        const std::vector<TensorId> losses = reserve_losses(plan, spec);
        if (last != nullptr) {
            collect(plan, *last, begin, spec, losses);
            begin += last->size;
        }
        last = size == passes[0].size ? &passes[0] : &passes[1];
        receive_examples(plan, *last, begin);
        plan.place(spec.largest_allocation);
        training.order.push_back(passes.size() + between.size() - 1);
        training.order.push_back(std::size_t(last - passes.data()));
    }
    const std::vector<TensorId> losses = reserve_losses(training.plan, spec);
    collect(training.plan, *last, begin, spec, losses);
    for (Pass& pass : passes) training.micro_plans.push_back(std::move(pass.plan));
    for (Plan& plan : between) training.micro_plans.push_back(std::move(plan));
    return loss_list(training.plan, spec, losses);
}

} // namespace towers
