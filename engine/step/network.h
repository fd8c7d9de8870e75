// Turns a model and a batch size into the plan of a training step or of an evaluation.
#pragma once

#include "engine/data/pipeline.h"
#include "engine/model/model.h"
#include "engine/plan/cuts.h"
#include "engine/plan/plan.h"
#include "engine/plan/state.h"
#include "engine/step/update.h"

namespace towers {

/// What a plan is made for; network_spec() makes one of a recipe.
struct NetworkSpec {
    const Model* model = nullptr;
    const StateLayout* layout = nullptr;
    const Pipeline* pipeline = nullptr;
    unsigned batch = 0;        ///< examples of this tower's share
    unsigned global_batch = 0; ///< of all towers; 0: this tower is alone
    ImageSize stored = {};     ///< of the device's records, planes of bytes
    std::size_t records = 0;   ///< that the device has room for: a feed's slots
    std::uint64_t seed = 0;    ///< of what is random: the distortions, dropout
    bool distort = false;      ///< else the pipeline of evaluation
    bool fuse = true;          ///< else each operation stands alone, for comparisons
    unsigned most = 0;         ///< examples that a step computes at once, at least Model::group(); 0: all
    std::uint64_t largest_allocation = UINT64_MAX; ///< the device's
};

/// In Arena::step: STEP_FLOATS floats, then at this offset an Example for each example.
constexpr std::size_t step_examples_offset = slice_alignment;

struct TrainingPlan {
    /// Of a step in micro-batches: the plans that come before `plan`, in this order; one may come several
    /// times. Nothing of their activations is needed from one to the next.
    std::vector<Plan> micro_plans;
    std::vector<std::size_t> order;

    Plan plan;                       ///< the step, or what is done once behind its micro-batches
    std::vector<ArenaRange> buckets; ///< of the gradient arena; empty when the step updates by itself
    std::vector<Cut> cuts;           ///< of `plan`

    /// The bytes that each arena needs.
    ArenaBytes bytes() const;
};

/// A step of the only tower: forward, backward, update, all on its device. Like plan_shared_step() it throws
/// std::logic_error when micro-batches are asked for and the model's layers work on the whole global batch.
TrainingPlan plan_single_step(const NetworkSpec& spec, const UpdateSpec& update);

/// A step of one tower of several, without the copies of parameters from Arena::staged_parameters and of
/// gradients to Arena::staged_gradients, which come bucket by bucket between its recordings. The gradients
/// are the tower's part of the global batch's: the towers' are added up.
TrainingPlan plan_shared_step(const NetworkSpec& spec);

/// Forward only, with the variables in Arena::state. Arena::staged_results receives `losses` and `correct`,
/// one word per example each (find() tells where). `spec.model` is a Model::for_evaluation().
Plan plan_evaluation(const NetworkSpec& spec);

} // namespace towers
