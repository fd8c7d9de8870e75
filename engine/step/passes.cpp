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
    TensorId gradients;
    StepTensors inputs;
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
    pass.inputs.examples = pass.plan.reserve("examples", Arena::micro_batch,
                                             {examples_to_make(spec), example_words}, ElementType::uint32);
    if (spec.mixes)
        pass.inputs.mixes =
            pass.plan.reserve("mixes", Arena::micro_batch, {size, mix_words}, ElementType::uint32);
    if (takes_targets(spec))
        pass.inputs.targets =
            pass.plan.reserve("targets", Arena::micro_batch, {size, class_stride(spec.model->classes)});
    pass.losses = plan_pass(pass.plan, spec, pass.inputs, Arena::micro_batch, Arena::micro_batch);
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

/// Copies what the pass needs of the share's examples from `first` on.
void receive_inputs(Plan& plan, const Pass& pass, std::size_t first, const NetworkSpec& spec) {
    const StepInputs at = step_inputs(spec);
    const auto receive = [&](const char* what, std::size_t offset, std::size_t stride, TensorId to,
                             ElementType type) {
        const std::size_t bytes = stride * sizeof(std::uint32_t);
        plan.copy(fmt::format("{} in", what),
                  plan.tensor(fmt::format("share's {}", what), Arena::staged_step, offset + first * bytes,
                              {pass.size, stride}, type),
                  to);
    };
    const TensorId examples = plan.shared(pass.plan, pass.inputs.examples);
    receive("examples", step_examples_offset, example_words,
            plan.part("own examples", examples, 0, pass.size * example_words), ElementType::uint32);
    if (spec.mixes) {
        receive("partners", step_examples_offset + spec.batch * sizeof(Example), example_words,
                plan.part("partners", examples, pass.size * example_words, pass.size * example_words),
                ElementType::uint32);
        receive("mixes", at.mixes, mix_words, plan.shared(pass.plan, pass.inputs.mixes), ElementType::uint32);
    }
    if (takes_targets(spec))
        receive("targets", at.targets, class_stride(spec.model->classes),
                plan.shared(pass.plan, pass.inputs.targets), ElementType::float32);
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
        receive_inputs(plan, *last, begin, spec);
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
