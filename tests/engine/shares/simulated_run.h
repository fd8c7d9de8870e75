// Towers of known speed in virtual time, for tests of the balancer.
#pragma once

#include "engine/shares/balancer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace towers::test {

// A run in virtual time: towers take the time that their true models say, plus a recording at each new share.
struct SimulatedRun {
    std::vector<LoadModel> truth;
    unsigned global, group;
    double jitter, outliers = 0; // standard deviation; the part of the steps with a tower 3 times slower
    double first_factor = 5, first_seconds = 0.5; // of a share's first time, which records and compiles
    std::mt19937 random;
    // The true seconds of all towers with these shares, if they depend on each other.
    std::function<std::vector<double>(const Shares&)> times{};
    Balancer balancer;
    std::vector<std::set<unsigned>> recorded;
    unsigned moves = 0, trials = 0;
    double seconds = 0; // of all steps, without recordings, jitter and slow steps
    double total = 0;   // of all steps and probes, all counted in

    SimulatedRun(std::vector<LoadModel> models, unsigned global_batch, unsigned groups_of, double deviation,
                 unsigned seed)
        : truth(std::move(models)), global(global_batch), group(groups_of), jitter(deviation), random(seed),
          balancer(global, group, Shares(truth.size(), global / unsigned(truth.size()))),
          recorded(truth.size()) {}

    std::vector<double> true_times(const Shares& shares) const {
        if (times) return times(shares);
        std::vector<double> all;
        for (std::size_t i = 0; i < truth.size(); ++i) all.push_back(truth[i].seconds(shares[i]));
        return all;
    }
    double true_step(const Shares& shares) const { return std::ranges::max(true_times(shares)); }
    Shares best_shares() const { return balanced_shares(truth, global, group, Shares(truth.size(), global)); }
    double best_step() const { return true_step(best_shares()); }
    // Best step / present step.
    double ratio() const { return best_step() / true_step(balancer.shares()); }

    // The towers' measured seconds for these shares.
    std::vector<double> measure(const Shares& shares) {
        std::normal_distribution<double> normal(1, jitter);
        std::vector<double> measured = true_times(shares);
        for (std::size_t i = 0; i < measured.size(); ++i) {
            if (jitter > 0) measured[i] *= std::max(0.1, normal(random));
            if (shares[i] > 0 && recorded[i].insert(shares[i]).second)
                measured[i] = first_factor * measured[i] + first_seconds;
        }
        total += std::ranges::max(measured);
        return measured;
    }

    // By tower: the largest share in a probe.
    Shares probe() {
        Shares largest(truth.size());
        for (Shares tried; !(tried = balancer.probe()).empty();) {
            std::ranges::transform(tried, largest, largest.begin(), std::ranges::max);
            balancer.probed(measure(tried));
        }
        return largest;
    }

    void steps(unsigned count) {
        std::uniform_real_distribution<double> uniform(0, 1);
        for (; count > 0; --count) {
            const Shares shares = balancer.shares();
            seconds += true_step(shares);
            std::vector<double> measured = measure(shares);
            if (outliers > 0 && uniform(random) < outliers) measured[random() % measured.size()] *= 3;
            if (std::accumulate(shares.begin(), shares.end(), 0u) != global) FAIL("not the global batch");
            const bool trying = balancer.trying();
            if (balancer.observe(measured, std::ranges::max(measured) * 1.01) && !trying)
                ++(balancer.trying() ? trials : moves);
        }
    }
};

// Towers with these relative speeds; their fixed seconds are this fraction of a step with 128 examples.
inline std::vector<LoadModel> speeds(const std::vector<double>& relative, double fixed) {
    std::vector<LoadModel> models;
    for (const double speed : relative) models.push_back({fixed / speed, (1 - fixed) / 128 / speed});
    return models;
}

inline SimulatedRun even_start(const std::vector<double>& relative, double fixed, double jitter,
                               unsigned seed) {
    return SimulatedRun(speeds(relative, fixed), unsigned(128 * relative.size()), 1, jitter, seed);
}

} // namespace towers::test
