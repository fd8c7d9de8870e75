// Plans that make histograms of tensors on the device that has them, for people to look at.
#pragma once

#include "engine/step/network.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// What a tensor's finite values are like.
struct Histogram {
    std::string name;
    std::uint64_t count = 0, zeros = 0;
    double least = 0, largest = 0, sum = 0, squares = 0; ///< all 0 if there are no values
    std::vector<std::uint64_t> bins;                     ///< zeros too; see bin_limit()
};

/// The upper limit of a bin; its lower one is the upper one of the bin below. The values beyond the outermost
/// limits are in the outermost bins.
double bin_limit(std::size_t bin);

/// A plan for a session whose memory of Arena::results is new.
struct HistogramPlan {
    Plan plan;
    std::vector<std::string> names; ///< of the histograms
};

/// Of each variable in Arena::state, by its name, and of the gradient of each that learns in Arena::gradients,
/// `<variable>/gradients`.
HistogramPlan plan_state_histograms(const StateLayout& layout);

/// Of what layers compute in an evaluation with the variables in Arena::state: `<layer>/activations` of each
/// layer that has an activation or learns, except one whose output only a normalization reads. `spec.model`
/// is a Model::for_evaluation().
HistogramPlan plan_activation_histograms(const NetworkSpec& spec);

/// Where such a plan leaves a histogram in Arena::staged_results: uint32 [HISTOGRAM_WORDS], and vec4s.
struct StagedHistogram {
    const PlannedTensor& counts;
    const PlannedTensor& partials;
};
StagedHistogram find_histogram(const Plan& plan, const std::string& name);
/// What is there.
Histogram to_histogram(const std::string& name, std::span<const std::uint32_t> counts,
                       std::span<const float> partials);

} // namespace towers
