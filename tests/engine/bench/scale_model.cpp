// The model of the exchange between ranks.
#include "engine/bench/scale_model.h"

#include <cmath>
#include <doctest/doctest.h>
#include <span>
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
    CHECK(fitted.seconds_per_byte == doctest::Approx(3e-9).epsilon(0.005));
    CHECK(fitted.seconds_per_step == doctest::Approx(0.001).epsilon(0.05));
    const NetworkCosts of_one = fit_network(std::span(measured).first(1), costs.seconds_per_message);
    CHECK(of_one.seconds_per_step == 0);
    CHECK(predicted_step(of_one, measured[0].layout) == doctest::Approx(measured[0].seconds).epsilon(0.005));
}

namespace {

/// Of simulated towers between network namespaces (tests/tools/exchange.cpp), whose backward takes two thirds
/// of the step; milliseconds.
MeasuredLayout measured(unsigned ranks, double megabytes, double step, double seconds) {
    return {{.ranks = ranks, .bytes = megabytes * 1e6, .step = step / 1e3, .hideable = step / 1e3 * 2 / 3},
            seconds / 1e3};
}

} // namespace

TEST_CASE("the model predicts layouts to which it was not fitted") {
    const double small = 4.274, large = 99.301;
    const MeasuredLayout two[] = {measured(2, small, 1, 41.3),   measured(2, small, 5, 40.5),
                                  measured(2, small, 20, 45.4),  measured(2, small, 50, 53.5),
                                  measured(2, large, 1, 836.8),  measured(2, large, 400, 976.9),
                                  measured(2, large, 1500, 1540)};
    const NetworkCosts fitted = fit_network(two, tcp_seconds_per_message); // 1 Gbit/s
    const MeasuredLayout four[] = {measured(4, small, 1, 61.9), measured(4, small, 10, 64.2),
                                   measured(4, small, 100, 104), measured(4, large, 1, 1320)};
    const auto check = [](const NetworkCosts& costs, std::span<const MeasuredLayout> all, double within) {
        for (const MeasuredLayout& its : all) {
            const RankLayout& layout = its.layout;
            const double seconds = its.seconds;
            INFO(layout.ranks, " ranks ", layout.bytes, " bytes ", layout.step, " s: measured ", seconds,
                 ", model ", predicted_step(costs, layout));
            CHECK(std::abs(predicted_step(costs, layout) / seconds - 1) < within);
        }
    };
    check(fitted, two, 0.07);
    check(fitted, four, 0.07);
    check(tcp_costs(1e9), two, 0.07);
    check(tcp_costs(1e9), four, 0.07);
    const MeasuredLayout three[] = {measured(3, small, 5, 28.1), measured(3, small, 20, 33.0),
                                    measured(3, small, 60, 63.2), measured(3, large, 300, 675)};
    check(tcp_costs(2e9), three, 0.07);
    const MeasuredLayout faster[] = {measured(2, large, 1, 173)};
    check(tcp_costs(5e9), faster, 0.07);
    // The processors decide.
    const MeasuredLayout fastest[] = {measured(2, small, 20, 21.3), measured(2, large, 1, 134),
                                      measured(2, large, 50, 153.5), measured(2, large, 200, 205.6)};
    check(tcp_costs(10e9), fastest, 0.07);
}

} // namespace towers
