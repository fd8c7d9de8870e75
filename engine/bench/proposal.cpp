#include "engine/bench/proposal.h"

#include "backends/error.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

namespace towers {
namespace {

/// Each tower's model when these towers work at the same time.
std::vector<LoadModel> models_of(const StepModel& model, const std::vector<std::size_t>& towers) {
    std::vector<LoadModel> models;
    for (const std::size_t i : towers) {
        const SoloTower& tower = model.towers[i];
        double wanted = 0; // of the device
        for (const std::size_t other : towers)
            if (model.towers[other].device == tower.device) wanted += model.towers[other].part;
        models.push_back({tower.step.fixed + (towers.size() > 1 ? tower.copy_seconds : 0),
                          tower.step.per_example * std::max(1.0, wanted)});
    }
    return models;
}

std::vector<unsigned> balanced(const StepModel& model, const std::vector<LoadModel>& models,
                               unsigned examples) {
    return balanced_shares(models, examples, model.group, std::vector<unsigned>(models.size(), examples));
}

} // namespace

double predicted_seconds(const StepModel& model, const Subset& subset) {
    return slowest_seconds(models_of(model, subset.towers), subset.shares) +
           (subset.towers.size() > 1 ? model.beyond_seconds : 0);
}

Subset with_best_shares(const StepModel& model, std::vector<std::size_t> towers) {
    if (towers.size() > model.global / model.group)
        throw UsageError("there are more towers than groups of examples; use a larger --batch");
    // Each tower has one group; only the rest is shared out.
    std::vector<LoadModel> models = models_of(model, towers);
    for (LoadModel& each : models) each.fixed = each.seconds(model.group);
    std::vector<unsigned> shares =
        balanced(model, models, model.global - unsigned(towers.size()) * model.group);
    for (unsigned& share : shares) share += model.group;
    return {std::move(towers), std::move(shares)};
}

Subset propose(const StepModel& model) {
    std::vector<std::size_t> all(model.towers.size()), working;
    std::iota(all.begin(), all.end(), std::size_t(0));
    const std::vector<unsigned> shares = balanced(model, models_of(model, all), model.global);
    std::ranges::copy_if(all, std::back_inserter(working), [&](std::size_t i) { return shares[i] > 0; });
    Subset best = with_best_shares(model, std::move(working));
    for (const std::size_t i : all) // a single tower exchanges no gradients
        if (const Subset alone{{i}, {model.global}};
            predicted_seconds(model, alone) < predicted_seconds(model, best))
            best = alone;
    return best;
}

std::vector<Subset> rank_subsets(const StepModel& model) {
    std::vector<std::pair<double, Subset>> ranked;
    std::set<std::vector<std::string>> seen;
    for (std::size_t members = 1; members < std::size_t(1) << model.towers.size(); ++members) {
        std::vector<std::size_t> towers;
        std::vector<std::string> devices;
        for (std::size_t i = 0; i < model.towers.size(); ++i)
            if ((members >> i & 1) != 0) {
                towers.push_back(i);
                devices.push_back(model.towers[i].device);
            }
        std::ranges::sort(devices);
        if (!seen.insert(devices).second) continue;
        Subset subset = with_best_shares(model, std::move(towers));
        ranked.emplace_back(predicted_seconds(model, subset), std::move(subset));
    }
    std::ranges::stable_sort(ranked, {}, &std::pair<double, Subset>::first);
    std::vector<Subset> subsets;
    for (auto& [seconds, subset] : ranked) subsets.push_back(std::move(subset));
    return subsets;
}

} // namespace towers
