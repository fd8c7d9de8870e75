// Turns a model and a batch size into the plan of a training step or of an evaluation.
#pragma once

#include "engine/plan/parameters.h"
#include "engine/plan/plan.h"

namespace towers {

/// What a plan is made for.
struct NetworkSpec {
    const Model* model;
    const ParameterLayout* layout;
    unsigned batch;                     ///< examples per step
    unsigned image_height, image_width; ///< of the resident records, planar RGB bytes
    std::size_t records;                ///< how many there are
    std::uint64_t seed = 0;             ///< of the distortions
    bool distort = false;               ///< else the evaluation pipeline: centre crop, standardization
    bool average_first = false;         ///< the moving average takes the parameters from before the update
};

/// In Arena::step: STEP_FLOATS floats, then at this offset (record, epoch) of each example.
constexpr std::size_t step_examples_offset = slice_alignment;

struct TrainingPlan {
    Plan plan;
    std::vector<ArenaRange> buckets; ///< of the gradient arena; empty when the step updates by itself
    /// Where the step is cut into recordings: the end level of each. One per bucket, or one in all.
    std::vector<std::size_t> cuts;
};

/// A step of the only tower: forward, backward, update, all on its device.
TrainingPlan plan_single_step(const NetworkSpec& spec);

/// A step of one tower of several: parameters come in from staging, gradients go out to it bucket by bucket.
TrainingPlan plan_shared_step(const NetworkSpec& spec, std::size_t bucket_bytes);

/// Forward only, with the parameters in Arena::parameters. Arena::staged_results receives `losses` and
/// `correct`, one word per example each (find() tells where).
Plan plan_evaluation(const NetworkSpec& spec);

} // namespace towers
