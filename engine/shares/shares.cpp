#include "engine/shares/shares.h"

#include "backends/error.h"
#include "engine/plural.h"
#include "engine/shares/load.h"
#include "engine/split.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace towers {

unsigned global_batch(unsigned batch, std::size_t towers) {
    const std::uint64_t global = std::uint64_t(batch) * towers;
    if (global > largest_global_batch)
        throw UsageError(fmt::format("--batch {}: is too large; try 128", batch));
    return unsigned(global);
}

std::vector<unsigned> share_out(unsigned global, unsigned towers, std::vector<double> weights,
                                unsigned group) {
    if (!weights.empty() && weights.size() != towers)
        throw UsageError(fmt::format("--shares names {} for {}; give one for each",
                                     count_of(weights.size(), "share"), count_of(towers, "tower")));
    if (global % group != 0)
        throw UsageError(
            fmt::format("a global batch of {} is no whole number of the groups of {} examples that the "
                        "recipe's batch norm takes; use a multiple of that, such as --batch {}",
                        global, group, group));
    const unsigned units = global / group;
    if (units < towers)
        throw UsageError(fmt::format("{} towers cannot share a global batch of {}{}; use a larger --batch",
                                     towers, global,
                                     group == 1 ? "" : fmt::format(" in groups of {}", group)));
    if (weights.empty()) weights.assign(towers, 1);
    // Only ratios matter. Scales the weights by a power of two, which rounds nothing, so that the largest is
    // between 1 and 2 and sums and products stay within a double's range.
    const int exponent = std::ilogb(*std::ranges::max_element(weights));
    for (double& weight : weights) weight = std::scalbn(weight, -exponent);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    // Sets aside one unit for each tower first, so that no share is empty.
    std::vector<unsigned> shares(towers, 1);
    std::vector<double> wants(towers);
    for (unsigned i = 0; i < towers; ++i) {
        const double ideal = units * weights[i] / total;
        shares[i] = std::max(1u, unsigned(std::floor(ideal)));
        wants[i] = ideal - shares[i];
    }
    unsigned given = std::accumulate(shares.begin(), shares.end(), 0u);
    while (given != units) { // at most one round per tower
        const bool more = given < units;
        unsigned best = towers;
        for (unsigned i = 0; i < towers; ++i) {
            if (!more && shares[i] == 1) continue;
            if (best == towers || (more ? wants[i] > wants[best] : wants[i] < wants[best])) best = i;
        }
        more ? ++shares[best] : --shares[best];
        wants[best] += more ? -1 : 1;
        more ? ++given : --given;
    }
    for (unsigned& share : shares) share *= group;
    return shares;
}

std::vector<Share> to_shares(std::span<const unsigned> examples, std::span<const unsigned> micro_batches) {
    std::vector<Share> shares;
    for (std::size_t i = 0; i < examples.size(); ++i)
        shares.push_back({examples[i], micro_batches.empty() ? 0 : micro_batches[i]});
    return shares;
}

std::vector<unsigned> first_shares(const SharePolicy& policy, unsigned global, unsigned towers,
                                   unsigned group) {
    if (policy.recorded.empty()) return share_out(global, towers, policy.weights, group);
    for (const SharesFrom& at : policy.recorded) {
        const std::uint64_t sum = std::accumulate(at.shares.begin(), at.shares.end(), std::uint64_t(0));
        const bool whole = std::ranges::all_of(at.shares, [&](unsigned share) { return share % group == 0; });
        const auto complain = [&](const std::string& what) {
            throw UsageError(fmt::format("--shares: from step {} on they were {}, {}", at.step,
                                         to_string(at.shares), what));
        };
        if (at.shares.size() != towers)
            complain(fmt::format("of {}, and this run has {}; give as many as the run that recorded them",
                                 count_of(at.shares.size(), "tower"), towers));
        if (sum != global)
            complain(fmt::format("which are {} a step, and this run takes {}; give --global-batch {}",
                                 count_of(sum, "example"), global, sum));
        if (!whole)
            complain(
                fmt::format("which are no whole groups of {} examples, as the recipe's batch norm takes; "
                            "give the recipe of the run that recorded them",
                            group));
    }
    return policy.recorded.front().shares;
}

const SharesFrom& shares_at(std::span<const SharesFrom> recorded, std::uint64_t step) {
    const auto after = std::ranges::upper_bound(recorded, step, {}, &SharesFrom::step);
    return *(after == recorded.begin() ? after : after - 1);
}

std::vector<unsigned> shares_without(const std::vector<bool>& lost, std::span<const unsigned> shares,
                                     unsigned group) {
    const unsigned global = std::accumulate(shares.begin(), shares.end(), 0u);
    const auto left = [&](std::size_t i) { return !lost[i] && shares[i] > 0; };
    bool any = false;
    for (std::size_t i = 0; i < shares.size(); ++i) any = any || left(i);
    std::vector<LoadModel> speeds(shares.size());
    std::vector<unsigned> most(shares.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
        speeds[i].per_example = 1.0 / std::max(shares[i], 1u);
        most[i] = left(i) || (!any && !lost[i]) ? global : 0;
    }
    return balanced_shares(speeds, global, group, most);
}

std::string to_string(std::span<const unsigned> shares) { return fmt::format("{}", fmt::join(shares, ":")); }

std::vector<double> parse_shares(const std::string& text, const char* offer) {
    std::vector<double> weights;
    if (text == "even") return weights;
    for (const std::string& part : split(text, ':')) {
        const char* const end = part.data() + part.size();
        double weight = 0;
        const auto [rest, error] = std::from_chars(part.data(), end, weight);
        if (error != std::errc{} || rest != end || !(weight >= 0) || !std::isfinite(weight))
            throw UsageError(fmt::format("--shares '{}': give {}", text, offer));
        if (weight == 0)
            throw UsageError(fmt::format(
                "--shares '{}': a share of 0 leaves a tower nothing to do; leave it out of --towers", text));
        weights.push_back(weight);
    }
    return weights;
}

} // namespace towers
