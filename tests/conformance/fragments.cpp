// Products by fragments, on matrix units: they round their operands and nothing else. rounded_products.cpp
// has what holds for every way that rounds.
#include "backends/launch/quads.h"
#include "tests/conformance/choosing.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace towers {
namespace {

using namespace test;
using reference::dilated_conv;
using reference::padded_conv;
using reference::same_conv;

/// Each card with matrix units for a type
template<class Function>
void with_units(Function function) {
    unsigned count = 0;
    const Launch launch = forward_of(general, same_conv(1, 8, 8, 8, 3, 3, 1, 8), true);
    for (const std::string& id : device_ids())
        for (const Precision precision : all_precisions)
            for (const Sources sources : sources_of_units(id)) {
                INFO("on ", id, " in ", std::string(name_of(precision)),
                     std::string(sources == Sources::nvidia_cards ? ", as on NVIDIA's" : ""));
                Choosing on(id, options_in(precision, sources));
                if (std::ranges::none_of(on.device->candidates(launch),
                                         [](const Candidate& way) { return is_by_fragments(way); }))
                    continue;
                function(on, precision);
                ++count;
            }
    if (std::getenv("TOWERS_NEEDS_MATRICES") != nullptr) CHECK(count > 0);
}

/// At least so many ways to run each pass: each of a card's tiles. Software drivers have less shared memory.
unsigned ways_of_a_pass(const Choosing& on) { return on.device->info().kind == DeviceKind::software ? 2 : 3; }

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
            CHECK(check_every_candidate(on, s, true, fragments_source) >= 3 * ways_of_a_pass(on));
        CHECK(check_every_candidate(on, same_conv(1, 7, 5, 4, 3, 3, 1, 8), false, fragments_source) >=
              3 * ways_of_a_pass(on));
    });
}

TEST_CASE("channels and rows of windows are padded for a product by fragments") {
    with_units([](Choosing& on, Precision) {
        for (const ConvShape& s : {same_conv(1, 8, 8, 3, 5, 5, 1, 64), same_conv(3, 5, 7, 3, 3, 3, 1, 13)})
            CHECK(check_every_candidate(on, s, true, padded_fragments) >= 3 * ways_of_a_pass(on));
        for (const ConvShape& s : {same_conv(1, 8, 8, 3, 5, 5, 1, 64),
                                   padded_conv(2, 11, 10, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 48)})
            // Gradients of images do not need rows of windows.
            CHECK(check_every_candidate(on, s, true, window_rows_by_fragments) >= 2 * ways_of_a_pass(on));
    });
}

TEST_CASE("a product by fragments has the same bits with any number of workgroups") {
    with_units([](Choosing& on, Precision) {
        const ConvShape s = same_conv(1, 12, 11, 24, 3, 3, 1, 68);
        const Tensors t(s);
        std::vector<std::vector<float>> results;
        const auto compute = [&](const auto& use) {
            on.with_each(
                forward_of(general, s, true),
                [&](const Candidate&) { use(forward(*on.device, general, s, t, false)); }, fragments_source);
            on.with_each(
                data_gradient_of(general, s),
                [&](const Candidate&) { use(data_gradient(*on.device, general, s, t, false)); },
                fragments_source);
        };
        compute([&](std::vector<float> values) { results.push_back(std::move(values)); });
        const LimitConfigs few({.most_groups = 1});
        std::size_t i = 0;
        compute([&](const std::vector<float>& values) { CHECK(values == results.at(i++)); });
        CHECK(i == results.size());
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
