// The model of the exchange between ranks.
#include "engine/bench/scale_model.h"

#include <doctest/doctest.h>
#include <vector>

namespace towers {

TEST_CASE("what a rank sends, by the slices that it has") {
    CHECK(busiest_rank(1, 4.3e6).messages == 0);
    for (const unsigned ranks : {2u, 3u, 4u, 16u}) {
        const Traffic traffic = busiest_rank(ranks, 99.3e6);
        CHECK(traffic.bytes == doctest::Approx(2. * (ranks - 1) / ranks * 99.3e6).epsilon(0.01));
        CHECK(double(traffic.messages) >= traffic.bytes / 57344);
    }
    // Slices are 8 KiB at least: with more ranks than slices, an owner sends its one to all others.
    const Traffic many = busiest_rank(1000, 4.3e6);
    CHECK(many.bytes == doctest::Approx(4.3e6 + 999 * 8192).epsilon(0.01));
    CHECK(many.messages < 1000 + 600);
}

TEST_CASE("a step is longer by what backward does not hide") {
    const NetworkCosts costs{8e-9, 0, 0.002}; // 1 Gbit/s
    constexpr double last = 262144 * 8e-9;    // a bucket
    const RankLayout layout{.ranks = 2, .bytes = 4.3e6, .step = 0.05, .hideable = 0.04};
    CHECK(exchange_seconds(costs, 2, 4.3e6) == doctest::Approx(0.0344).epsilon(0.01));
    CHECK(predicted_step(costs, layout) == doctest::Approx(0.052 + last));
    RankLayout shorter = layout;
    shorter.step = 0.005, shorter.hideable = 0.003;
    CHECK(predicted_step(costs, shorter) == doctest::Approx(0.005 + 0.002 + 0.0314).epsilon(0.01));
    RankLayout alone = layout;
    alone.ranks = 1;
    CHECK(predicted_step(costs, alone) == 0.05);
    // Votes go to everybody, after everything else.
    RankLayout more = layout;
    more.ranks = 64, more.hideable = 1;
    const double hidden = predicted_step({8e-9, 0, 0}, more);
    CHECK(hidden == doctest::Approx(0.05 + 2 * last).epsilon(0.1));
    CHECK(predicted_step({8e-9, 1e-5, 0}, more) > hidden + 2 * 63 * 1e-5);
}

TEST_CASE("a network's costs are found from steps") {
    const NetworkCosts costs{3e-9, 2e-5, 0.001};
    std::vector<MeasuredLayout> measured;
    for (const double step : {0.005, 0.02, 0.1})
        for (const double bytes : {4.3e6, 99.3e6}) {
            const RankLayout layout{.ranks = 2, .bytes = bytes, .step = step, .hideable = step / 2};
            measured.push_back({layout, predicted_step(costs, layout)});
        }
    const NetworkCosts fitted = fit_network(measured, costs.seconds_per_message);
    CHECK(fitted.seconds_per_byte == doctest::Approx(3e-9).epsilon(0.002));
    CHECK(fitted.seconds_per_step == doctest::Approx(0.001).epsilon(0.02));
    const NetworkCosts of_one = fit_network(std::span(measured).first(1), costs.seconds_per_message);
    CHECK(of_one.seconds_per_step == 0);
    CHECK(predicted_step(of_one, measured[0].layout) == doctest::Approx(measured[0].seconds).epsilon(0.002));
}

} // namespace towers
