#include "engine/step/network.h"

#include "engine/data/example.h"
#include "engine/plan/micro_batches.h"
#include "engine/step/builder.h"
#include "engine/step/passes.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace towers {
namespace {

TensorId step_examples(Plan& plan, unsigned count) {
    return plan.tensor("examples", Arena::step, step_examples_offset, {count, example_words},
                       ElementType::uint32);
}

/// Of a step of the whole share.
StepTensors step_tensors(Plan& plan, const NetworkSpec& spec) {
    const StepInputs at = step_inputs(spec);
    StepTensors tensors{.examples = step_examples(plan, examples_to_make(spec)), .mixes = {}, .targets = {}};
    if (spec.mixes)
        tensors.mixes =
            plan.tensor("mixes", Arena::step, at.mixes, {spec.batch, mix_words}, ElementType::uint32);
    if (takes_targets(spec))
        tensors.targets =
            plan.tensor("targets", Arena::step, at.targets, {spec.batch, class_stride(spec.model->classes)});
    return tensors;
}

/// Reserves the memory in which tower and host hand things to each other outside the plan.
void stage_variables(Plan& plan, const StateLayout& layout) {
    plan.tensor("staged parameters", Arena::staged_parameters, 0, {layout.trained_bytes / sizeof(float)});
    plan.tensor("staged gradients", Arena::staged_gradients, 0, {layout.updated_bytes / sizeof(float)});
    const auto [offset, bytes] = layout.frozen();
    if (bytes == 0) return;
    plan.tensor("staged frozen variables", Arena::staged_parameters, offset, {bytes / sizeof(float)});
    plan.tensor("frozen variables", Arena::state, offset, {bytes / sizeof(float)});
}

void finish_step(Plan& plan, const NetworkSpec& spec) {
    if (spec.staged)
        plan.tensor(staged_records, Arena::staged_records, 0, {spec.slots * spec.stored.elements()},
                    ElementType::uint8);
    finish(plan, spec);
}

void check_scaling(const NetworkSpec& spec, const UpdateSpec& update) {
    if (spec.scales_loss != update.scales_loss)
        throw std::logic_error("plan: the loss is scaled but the gradients are not unscaled, or vice versa");
}

/// Forward and backward, at once or in micro-batches, and then what `end` adds.
TrainingPlan plan_step(const NetworkSpec& spec, std::vector<ArenaRange> buckets,
                       const std::function<void(Plan&, const LossList&)>& end) {
    TrainingPlan training{.buckets = std::move(buckets)};
    Plan& plan = training.plan;
    if (spec.most == 0 || spec.most >= spec.batch)
        end(plan,
            loss_list(plan, spec,
                      plan_pass(plan, spec, step_tensors(plan, spec), Arena::gradients, Arena::results)));
    else
        end(plan, plan_passes(spec, micro_batches(spec.batch, spec.model->group(), spec.most), training));
    finish_step(plan, spec);
    training.cuts = cut(plan, training.buckets);
    return training;
}

} // namespace

bool takes_targets(const Model& model, bool mixes) {
    return mixes || std::ranges::any_of(model.heads,
                                        [](const LossHead& head) { return head.kind == LossKind::sigmoid; });
}

std::vector<const Plan*> TrainingPlan::plans() const {
    std::vector<const Plan*> all{&plan};
    for (const Plan& each : micro_plans) all.push_back(&each);
    return all;
}

ArenaBytes TrainingPlan::bytes() const {
    ArenaBytes most{};
    for (const Plan* const each : plans())
        std::ranges::transform(most, each->bytes(), most.begin(), std::ranges::max);
    return most;
}

TrainingPlan plan_single_step(const NetworkSpec& spec, const UpdateSpec& update) {
    check_scaling(spec, update);
    TrainingPlan training =
        plan_step(spec, {}, [&](Plan& plan, const LossList& losses) { plan_update(plan, update, losses); });
    training.updates = true;
    return training;
}

TrainingPlan plan_shared_step(const NetworkSpec& spec) {
    TrainingPlan training = plan_step(spec, make_buckets(*spec.layout, bucket_bytes(*spec.layout)),
                                      [&](Plan& plan, const LossList& losses) {
                                          plan_results(plan, losses);
                                          stage_variables(plan, *spec.layout);
                                      });
    training.trained = spec.layout->trained();
    training.frozen = spec.layout->frozen();
    return training;
}

TrainingPlan plan_step_alone(NetworkSpec spec, const UpdateSpec& update) {
    check_scaling(spec, update);
    const StateLayout& layout = *spec.layout;
    spec.global_batch = 0;
    TrainingPlan training = plan_step(spec, {}, [&](Plan& plan, const LossList& losses) {
        plan_update(plan, update, losses);
        stage_variables(plan, layout);
        plan.tensor("state", Arena::state, 0, {layout.bytes / sizeof(float)});
        plan.tensor("staged state", Arena::staged_state, 0, {staged_states * layout.bytes / sizeof(float)});
    });
    training.updates = true;
    training.buckets = make_buckets(layout, bucket_bytes(layout));
    training.trained = layout.trained();
    training.frozen = layout.frozen();
    training.cuts = cut_before_update(training.plan);
    return training;
}

Plan plan_evaluation(const NetworkSpec& spec) {
    Plan plan;
    Builder network(plan, spec, false);
    const TensorId examples = step_examples(plan, spec.batch);
    const BatchTensors batch = plan_batch(plan, spec, examples);
    const std::vector<TensorId> logits = network.outputs(batch.images, examples);
    if (spec.model->heads[0].kind == LossKind::softmax)
        plan.copy("losses out", network.losses(logits, batch.labels, {}).losses[0],
                  plan.reserve("staged_losses", Arena::staged_results, {spec.batch}));
    plan.copy("logits out", logits[0],
              plan.reserve("staged_logits", Arena::staged_results, {spec.batch, spec.model->classes}));
    finish_step(plan, spec);
    return plan;
}

} // namespace towers
