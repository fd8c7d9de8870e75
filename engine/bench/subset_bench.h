// Predicts and measures steps of subsets of the towers.
#pragma once

#include "engine/bench/bench.h"
#include "engine/bench/proposal.h"
#include "engine/data/source.h"
#include "engine/recipes/recipe.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Measures whole steps of some towers. Opens their devices again for each repetition, since many runs at
/// once would not fit into a device's memory.
class SubsetBench {
public:
    SubsetBench(std::vector<std::string> towers, std::vector<unsigned> shares);

    /// `cpu,vulkan:0 with 252:4 examples`
    std::string name() const;

    /// One repetition. Does nothing after a device has refused.
    void repeat(const Recipe& recipe, const BenchOptions& options, const DataSource& data);

    /// One value per repetition, unless a device has refused.
    const std::vector<double>& examples_per_s() const { return examples_per_s_; }
    const std::vector<double>& step_us() const { return step_us_; }
    const std::optional<std::string>& refusal() const { return refusal_; }

private:
    std::vector<std::string> towers_;
    std::vector<unsigned> shares_;
    std::vector<double> examples_per_s_, step_us_;
    std::optional<std::string> refusal_;
};

/// Measures the proposal and, if asked for, subsets of the towers.
class ProposalBench {
public:
    /// Chooses the proposal and the subsets to measure. `together`: the shares in the run of all towers,
    /// which is measured anyway.
    ProposalBench(const StepModel& model, const std::vector<unsigned>& together, bool subsets);

    std::vector<SubsetBench>& benches() { return benches_; }

    /// Adds its results to the figures of the run of all towers. `solo_sums`: the sums of the solo rates, by
    /// repetition.
    void report(const StepModel& model, const std::vector<double>& solo_sums, TogetherFigures& figures) const;

private:
    SubsetFigures figures(const StepModel& model, const Subset& subset, const std::vector<double>& solo_sums,
                          const TogetherFigures& together) const;

    Subset proposal_;
    std::optional<std::vector<Subset>> subsets_;
    std::vector<Subset> measured_;
    std::vector<SubsetBench> benches_; ///< one for each of measured_
};

} // namespace towers
