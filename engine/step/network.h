// Plans a training step or an evaluation of a model.
#pragma once

#include "engine/data/batch.h"
#include "engine/data/pipeline.h"
#include "engine/model/model.h"
#include "engine/plan/cuts.h"
#include "engine/plan/plan.h"
#include "engine/plan/state.h"
#include "engine/step/update.h"

namespace towers {

/// The inputs of planning; network_spec() makes them from a recipe.
struct NetworkSpec {
    const Model* model = nullptr;
    const StateLayout* layout = nullptr;
    const Pipeline* pipeline = nullptr;
    unsigned batch = 0;        ///< examples of this tower's share
    unsigned share = 0;        ///< examples of the share of which `batch` is a micro-batch; 0: `batch` is it
    unsigned global_batch = 0; ///< on all towers; 0: there is only this tower
    ImageSize stored = {};     ///< of the device's records, planes of bytes
    std::size_t slots = 0;     ///< records that the device has room for; see ResidentFeed
    bool staged = false;       ///< whether images come with each step; then see StagedImages::slots()
    std::uint64_t seed = 0;    ///< for distortions and dropout
    bool distort = false;      ///< false: the evaluation pipeline
    bool mixes = false;        ///< whether training steps mix images: Batch::mixes
    bool scales_loss = false;  ///< gradients get the factor StepNumbers::loss_scale
    bool fuse = true;          ///< false: no fused operations, for comparisons
    unsigned most = 0;         ///< the most examples to compute at once, at least Model::group(); 0: all
    std::uint64_t largest_allocation = UINT64_MAX; ///< the device's
};

/// Numbers from one row of classes to the next one: whole vec4s.
constexpr std::size_t class_stride(unsigned classes) { return ceil_div(classes, 4) * 4; }

/// Whether a training step's losses take Batch::targets.
bool takes_targets(const Model& model, bool mixes);

/// In Arena::step: STEP_FLOATS floats, then at this offset an Example for each example of the share.
constexpr std::size_t step_examples_offset = slice_alignment;

/// Then what training steps need of a Batch, at these offsets: with mixes the examples' partners, as further
/// Examples without a gap, and the mixes; targets; class weights.
struct StepInputs {
    std::size_t mixes, targets, class_weights;

    /// `share`: its examples. `target_stride`: of targets, 0 if there are none.
    constexpr StepInputs(std::size_t share, bool has_mixes, std::size_t target_stride)
        : mixes(aligned(step_examples_offset + share * sizeof(Example) * (has_mixes ? 2 : 1))),
          targets(aligned(mixes + (has_mixes ? share * sizeof(Mix) : 0))),
          class_weights(aligned(targets + share * target_stride * sizeof(float))) {}
};

struct TrainingPlan {
    /// For a step in micro-batches: the plans that run before `plan`, in this order; a plan may run several
    /// times. Activations are not needed from one run to the next.
    std::vector<Plan> micro_plans;
    std::vector<std::size_t> order;

    Plan plan;                       ///< the step, or its end after all micro-batches
    bool updates = false;            ///< the step includes the update of the state
    std::vector<ArenaRange> buckets; ///< of the gradient arena, of one of several towers
    ArenaRange trained{}, frozen{};  ///< of the variables, as StateLayout says; of one of several towers
    std::vector<Cut> cuts;           ///< of `plan`

    /// `plan` and the micro-batches'
    std::vector<const Plan*> plans() const;
    /// The bytes that each arena needs.
    ArenaBytes bytes() const;
};

/// Plans the step of a single tower: forward, backward and update on its device. Like plan_shared_step(),
/// throws std::logic_error if it should use micro-batches but a layer needs the whole global batch; also if
/// `spec` and `update` disagree about loss scaling.
TrainingPlan plan_single_step(const NetworkSpec& spec, const UpdateSpec& update);

/// Plans the step of one of several towers. The plan does not contain the copies of frozen variables and
/// parameters from Arena::staged_parameters and of gradients to Arena::staged_gradients, which happen bucket
/// by bucket between its recordings. The towers' gradients add up to the global batch's.
TrainingPlan plan_shared_step(const NetworkSpec& spec);

/// The states in Arena::staged_state: the last one that is complete, and those that two steps in flight
/// leave, so that whatever fails, a complete one is left.
constexpr std::size_t staged_states = 3;

/// Plans the step of one of several towers that has the whole global batch: the single tower's, with the same
/// bits. It is cut before the update, which must wait until the state has been copied to
/// Arena::staged_state, and has room for what a shared step hands over. `spec.global_batch` is ignored.
TrainingPlan plan_step_alone(NetworkSpec spec, const UpdateSpec& update);

/// In a plan with NetworkSpec::staged: the staging memory for the images of Arena::records.
constexpr const char* staged_records = "staged records";

/// Plans a forward pass with the variables in Arena::state. Arena::staged_results receives `staged_losses`,
/// [batch], if the first head is a softmax's, and `staged_logits` of it, [batch, classes] (find() tells
/// where). `spec.model` is a Model::for_evaluation().
Plan plan_evaluation(const NetworkSpec& spec);

} // namespace towers
