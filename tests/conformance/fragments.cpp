// Products by fragments, on matrix units: they round their operands and nothing else.
#include "backends/launch/quads.h"
#include "tests/conformance/choosing.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace towers {
namespace {

using namespace test;
using reference::dilated_conv;
using reference::padded_conv;
using reference::same_conv;
using reference::Values;

/// How much larger, in parts of the size, what was measured is on average than what was expected.
double excess(const std::vector<float>& measured, const Values& expected) {
    double product = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        product += (measured[i] - expected[i]) * expected[i];
        norm += expected[i] * expected[i];
    }
    return product / norm;
}

double tolerance_in(Precision operands) {
    return operands == Precision::fp32 ? two_parts_tolerance : units_tolerance;
}

OpenOptions options_with(Precision precision, Sources sources) {
    OpenOptions options = open_options();
    options.precision = precision;
    options.sources = sources;
    return options;
}

/// Each card with matrix units for a type. A software driver has matrices too, if it is a card's.
template<class Function>
void with_units(Function function) {
    unsigned all = 0;
    for (const std::string& id : device_ids())
        for (const Precision precision : all_precisions)
            for (const Sources sources : {Sources::best, Sources::cards, Sources::nvidia_cards}) {
                Choosing on(id, options_with(precision, sources));
                if ((on.device->info().kind == DeviceKind::software) == (sources == Sources::best)) continue;
                INFO("on ", id, " in ", std::string(name_of(precision)),
                     std::string(sources == Sources::nvidia_cards ? " by matrices of any size" : ""));
                const auto ways =
                    on.device->candidates(forward_of(general, same_conv(1, 8, 8, 8, 3, 3, 1, 8), true));
                if (std::ranges::any_of(
                        ways, [](const Candidate& each) { return each.variant == fragments_source; })) {
                    function(on, precision);
                    ++all;
                }
            }
    if (std::getenv("TOWERS_NEEDS_MATRICES") != nullptr) CHECK(all > 0);
}

/// At least so many ways to run three passes: each of a card's tiles. Software drivers have less shared
/// memory.
unsigned ways_of_three_passes(const Choosing& on) {
    return on.device->info().kind == DeviceKind::software ? 6 : 9;
}

} // namespace

TEST_CASE("a product by fragments rounds its operands to the nearest and adds up in float32") {
    with_units([](Choosing& on, Precision) {
        for (const ConvShape& s :
             {same_conv(2, 9, 10, 24, 3, 3, 1, 40), same_conv(1, 7, 5, 4, 3, 3, 1, 4),
              same_conv(1, 12, 11, 8, 1, 1, 1, 132),           // wider than a tile
              same_conv(37, 1, 1, 100, 1, 1, 1, 12),           // a dense layer
              same_conv(2, 6, 5, 24, {{3, 3}, {1, 1}}, 40, 2), // of 12 and 20 channels a group
              padded_conv(2, 9, 8, 12, {{3, 3}, {2, 2}}, {1, 1, 1, 1}, 20),
              dilated_conv(1, 10, 11, 8, {{3, 2}, {2, 1}}, {2, 3}, {2, 1, 1, 2}, 24)})
            CHECK(check_every_candidate(on, s, true, fragments_source) >= ways_of_three_passes(on));
        CHECK(check_every_candidate(on, same_conv(1, 7, 5, 4, 3, 3, 1, 8), false, fragments_source) >=
              ways_of_three_passes(on));
    });
}

TEST_CASE("channels and rows of windows are padded for a product by fragments") {
    with_units([](Choosing& on, Precision) {
        for (const ConvShape& s : {same_conv(1, 12, 12, 3, 5, 5, 1, 64), same_conv(3, 5, 7, 3, 3, 3, 1, 13)})
            CHECK(check_every_candidate(on, s, true, padded_fragments) >= ways_of_three_passes(on));
        for (const ConvShape& s : {same_conv(1, 12, 12, 3, 5, 5, 1, 64),
                                   padded_conv(2, 11, 10, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 48)})
            CHECK(check_every_candidate(on, s, true, window_rows_by_fragments) >= 6);
    });
}

TEST_CASE("long sums by fragments are no smaller than they should be") {
    with_units([](Choosing& on, Precision operands) {
        const ConvShape s = same_conv(1, 12, 12, 128, 5, 5, 1, 64);
        const Tensors t(s);
        const Tensors r = rounded(t, operands);
        const Values y = reference::relu(reference::conv2d(s, widen(r.x), widen(r.w), widen(r.b)));
        on.with_each(
            launch(kernels::conv2d_forward, {.shape = s, .relu = 1, .bias = 1, .splits = 1}),
            [&](const Candidate&) {
                // Units that truncate 200 sums one after the other would take away some 3e-6.
                CHECK(std::abs(excess(forward(*on.device, general, s, t, true), y)) < 5e-7);
            },
            fragments_source);
    });
}

TEST_CASE("a product by fragments has the same bits with any number of workgroups") {
    with_units([](Choosing& on, Precision) {
        const ConvShape s = same_conv(2, 12, 11, 24, 3, 3, 1, 132);
        const Tensors t(s);
        std::vector<std::vector<float>> results;
        const auto compute = [&](const auto& use) {
            on.with_each(
                launch(kernels::conv2d_forward, {.shape = s, .bias = 1, .splits = 1}),
                [&](const Candidate&) { use(forward(*on.device, general, s, t, false)); }, fragments_source);
            on.with_each(
                launch(kernels::conv2d_backward_data, {.shape = s, .splits = 1}),
                [&](const Candidate&) { use(data_gradient(*on.device, general, s, t, false)); },
                fragments_source);
        };
        compute([&](std::vector<float> values) { results.push_back(std::move(values)); });
        const LimitConfigs few({.most_groups = 2});
        std::size_t i = 0;
        compute([&](const std::vector<float>& values) { CHECK(values == results.at(i++)); });
        CHECK(i == results.size());
    });
}

TEST_CASE("NaN and infinity pass through products by fragments, and no tap beside the image sees any") {
    with_units([](Choosing& on, Precision operands) {
        const ConvShape s = same_conv(2, 6, 7, 8, 3, 3, 1, 12);
        Tensors t(s);
        const float largest = std::numeric_limits<float>::max();
        const float strange[] = {std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0x7fffffffu),
                                 INFINITY, 70000.0f, operands == Precision::fp32 ? 1.0f : largest};
        for (const float value : strange) {
            INFO(value);
            Tensors with = t;
            with.x[8 * 10 + 3] = value;
            with.dy[12 * 50 + 7] = -value;
            const Tensors r = rounded(with, operands);
            Device& device = *on.device;
            const double tolerance = tolerance_in(operands);
            on.with_each(
                launch(kernels::conv2d_forward, {.shape = s, .bias = 1, .splits = 1}),
                [&](const Candidate&) {
                    const Values y = reference::conv2d(s, widen(r.x), widen(r.w), widen(r.b));
                    check_near("y", forward(device, general, s, with, false), y, tolerance);
                },
                fragments_source);
            on.with_each(
                launch(kernels::conv2d_backward_data, {.shape = s, .splits = 1}),
                [&](const Candidate&) {
                    const Values dx = reference::conv2d_data_gradient(s, widen(r.w), widen(r.dy));
                    check_near("dx", data_gradient(device, general, s, with, false), dx, tolerance);
                },
                fragments_source);
            on.with_each(
                launch(kernels::conv2d_backward_weights, {.shape = s, .bias = 1, .splits = 1}),
                [&](const Candidate&) {
                    const WeightGradients measured = weight_gradients(device, general, s, with, 0);
                    check_near("dw", measured.dw,
                               reference::conv2d_weights_gradient(s, widen(r.x), widen(r.dy)), tolerance);
                    constexpr double cancelling = 1e3; // sums keep the digits of their terms, not their own
                    check_near("db", measured.db, reference::conv2d_bias_gradient(s, widen(r.dy)),
                               tolerance * cancelling);
                },
                fragments_source);
        }
    });
}

namespace {

constexpr unsigned all_units =
    units_for(Precision::bf16) | units_for(Precision::fp16) | units_for(Precision::tf32);

DeviceFacts card_in(Precision precision) {
    return {.busy_groups = 264,
            .subgroup_size = 32,
            .precision = precision,
            .quads = true,
            .fragments = {.operands = all_units},
            .shared_memory = 48 << 10};
}

} // namespace

TEST_CASE("a card multiplies in the precision that is allowed and for which it has units") {
    const Launch large = forward_of(general, same_conv(128, 28, 28, 128, 3, 3, 1, 128), true);
    const Launch three = forward_of(general, same_conv(128, 224, 224, 3, 7, 7, 2, 64), true);
    for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
        DeviceFacts facts = card_in(precision);
        const auto config = fragments_config(large, facts);
        REQUIRE(config);
        CHECK(config->operands == precision);
        CHECK((window_rows_by_fragments_config(three, facts) || padded_fragments_config(three, facts)));
        CHECK_FALSE(fragments_config(forward_of(general, same_conv(1, 8, 8, 6, 3, 3, 1, 8), true), facts));
        facts.exact_products = true; // which forbids other sums, not the precision that was asked for
        CHECK(fragments_config(large, facts));
        facts.fragments.operands = all_units & ~units_for(precision);
        CHECK(fragments_configs(large, facts).empty());
        CHECK(padded_fragments_configs(three, facts).empty());
    }
}

TEST_CASE("float32 in two parts is measured, never estimated, and not exact") {
    const Launch large = forward_of(general, same_conv(128, 28, 28, 128, 3, 3, 1, 128), true);
    DeviceFacts facts = card_in(Precision::fp32);
    CHECK_FALSE(fragments_config(large, facts));
    CHECK(product_config(large, facts)->cost == quads_config(large, facts)->cost);
    REQUIRE_FALSE(fragments_configs(large, facts).empty());
    for (const LaunchConfig& each : fragments_configs(large, facts)) CHECK(each.operands == Precision::fp32);
    facts.exact_products = true;
    CHECK(fragments_configs(large, facts).empty());
    facts.exact_products = false;
    facts.fragments.operands = units_for(Precision::fp16); // whose range is too small
    CHECK(fragments_configs(large, facts).empty());
}

} // namespace towers
