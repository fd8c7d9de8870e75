#include "engine/inference/class_figures.h"

#include <algorithm>

namespace towers {

Ranking rank(std::span<RankedExample> examples) {
    const auto its = std::uint64_t(std::ranges::count(examples, true, &RankedExample::is_its));
    const std::uint64_t others = examples.size() - its;
    if (its == 0) return {};
    std::ranges::sort(examples, std::ranges::greater(), &RankedExample::probability);
    std::uint64_t its_before = 0, others_before = 0; // of higher probability
    std::uint64_t halves = 0;                        // pairs in the right order count two, equal ones one
    double precisions = 0;
    for (auto at = examples.begin(); at != examples.end();) {
        std::uint64_t its_here = 0, others_here = 0; // equal ones, between which no threshold is
        const double probability = at->probability;
        for (; at != examples.end() && at->probability == probability; ++at)
            ++(at->is_its ? its_here : others_here);
        halves += others_here * (2 * its_before + its_here);
        its_before += its_here;
        others_before += others_here;
        precisions += double(its_here) * (double(its_before) / double(its_before + others_before));
    }
    Ranking ranking{.auc = {}, .average_precision = precisions / double(its)};
    if (others > 0) ranking.auc = double(halves) / (2 * double(its) * double(others));
    return ranking;
}

Averages average(std::span<const ClassFigures> classes,
                 const std::function<std::optional<double>(std::uint32_t)>& figure) {
    double sum = 0, weighted = 0;
    std::uint64_t count = 0, examples = 0;
    for (std::uint32_t label = 0; label < classes.size(); ++label) {
        const std::optional<double> its = figure(label);
        if (!its) continue;
        ++count;
        examples += classes[label].examples;
        sum += *its;
        weighted += *its * double(classes[label].examples);
    }
    Averages averages;
    if (count > 0) averages.macro = sum / double(count);
    if (examples > 0) averages.weighted = weighted / double(examples);
    return averages;
}

void ClassAverages::average_rankings(std::span<const ClassFigures> classes) {
    auc = average(classes, [this](std::uint32_t label) { return rankings[label].auc; });
    average_precision =
        average(classes, [this](std::uint32_t label) { return rankings[label].average_precision; });
}

} // namespace towers
