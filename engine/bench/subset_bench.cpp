#include "engine/bench/subset_bench.h"

#include "engine/bench/step_bench.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

namespace towers {
namespace {

constexpr std::size_t all_are_measured = 7; // the number of subsets of three towers
constexpr std::size_t most_measured = 5;    // if there are more

std::vector<std::string> devices_of(const StepModel& model, const Subset& subset) {
    std::vector<std::string> devices;
    for (const std::size_t i : subset.towers) devices.push_back(model.towers[i].device);
    return devices;
}

} // namespace

SubsetBench::SubsetBench(std::vector<std::string> towers, std::vector<unsigned> shares)
    : towers_(std::move(towers)), shares_(std::move(shares)) {}

std::string SubsetBench::name() const {
    return fmt::format("{} with {} examples", fmt::join(towers_, ","), to_string(shares_));
}

void SubsetBench::repeat(const Recipe& recipe, const BenchOptions& options, const DataSource& data) {
    if (refusal_) return;
    try {
        const unsigned global = std::accumulate(shares_.begin(), shares_.end(), 0u);
        StepBench steps(recipe,
                        bench_training(towers_, global, {shares_.begin(), shares_.end()}, options.open),
                        options.settings, data);
        steps.warm_up();
        steps.repeat();
        examples_per_s_.push_back(steps.examples_per_s().front());
        step_us_.push_back(steps.step_us().front());
    } catch (const DeviceError& error) { // for example out of memory
        refusal_ = error.what();
    }
}

ProposalBench::ProposalBench(const StepModel& model, const std::vector<unsigned>& together, bool subsets)
    : proposal_(propose(model)) {
    std::vector<Subset> wanted{proposal_};
    if (subsets) {
        subsets_ = rank_subsets(model);
        const std::size_t count = subsets_->size() <= all_are_measured ? subsets_->size() : most_measured;
        wanted.insert(wanted.end(), subsets_->begin(), subsets_->begin() + std::ptrdiff_t(count));
    }
    for (Subset& subset : wanted) {
        if (subset.shares == together || std::ranges::find(measured_, subset) != measured_.end()) continue;
        benches_.emplace_back(devices_of(model, subset), subset.shares);
        measured_.push_back(std::move(subset));
    }
}

SubsetFigures ProposalBench::figures(const StepModel& model, const Subset& subset,
                                     const std::vector<double>& solo_sums,
                                     const TogetherFigures& together) const {
    const double seconds = predicted_seconds(model, subset);
    SubsetFigures figures;
    figures.towers = devices_of(model, subset);
    figures.shares = subset.shares;
    figures.predicted_step_us = seconds * 1e6;
    figures.predicted_examples_per_s = model.global / seconds;
    figures.predicted_share_of_sum = figures.predicted_examples_per_s / median_of(solo_sums);
    if (subset.shares == together.shares) {
        figures.examples_per_s = together.examples_per_s;
        figures.step_us = together.step_us;
        figures.share_of_sum = together.share_of_sum;
        return figures;
    }
    const auto found = std::ranges::find(measured_, subset);
    if (found == measured_.end()) return figures;
    const SubsetBench& bench = benches_[std::size_t(found - measured_.begin())];
    figures.refusal = bench.refusal();
    if (figures.refusal || bench.step_us().empty()) return figures;
    std::vector<double> shares_of_sum;
    std::ranges::transform(bench.examples_per_s(), solo_sums, std::back_inserter(shares_of_sum),
                           std::divides());
    figures.examples_per_s = spread_of(bench.examples_per_s());
    figures.step_us = spread_of(bench.step_us());
    figures.share_of_sum = spread_of(shares_of_sum);
    return figures;
}

void ProposalBench::report(const StepModel& model, const std::vector<double>& solo_sums,
                           TogetherFigures& together) const {
    together.proposal = figures(model, proposal_, solo_sums, together);
    if (!subsets_) return;
    std::vector<SubsetFigures> all;
    for (const Subset& subset : *subsets_) all.push_back(figures(model, subset, solo_sums, together));
    // Subsets that were not measured follow in the order of their predictions.
    const auto measured = [](const SubsetFigures& each) {
        return each.examples_per_s ? each.examples_per_s->median : 0;
    };
    std::ranges::stable_sort(all, std::greater(), measured);
    together.subsets = std::move(all);
}

} // namespace towers
