// Every way in which a device can run a convolution computes it.
#include "tests/conformance/choosing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

namespace towers {

using namespace test;
using reference::same_conv;
using reference::Values;

namespace {

/// What a pass computes of tensors that are rounded as a way rounds them.
class Expected {
public:
    Expected(const Tensors& exact, std::function<Values(const Tensors&)> compute)
        : exact_(exact), compute_(std::move(compute)) {}

    const Values& of(Precision operands) {
        const auto [found, is_new] = values_.try_emplace(operands);
        if (is_new) found->second = compute_(rounded(exact_, operands));
        return found->second;
    }
    void check(const char* what, const std::vector<float>& measured, const Candidate& candidate) {
        const Precision operands = candidate.config.operands;
        check_near(what, measured, of(operands), tolerance_of(candidate));
        const Values& exact = of(Precision::fp32);
        if (operands == Precision::fp32 || reference::dot(exact, exact) == 0) return;
        // Else it would have fallen back to float32 without a word.
        CHECK(normalized_error(measured, exact) > rounding_of(operands) / 39);
    }

private:
    const Tensors& exact_;
    std::function<Values(const Tensors&)> compute_;
    std::map<Precision, Values> values_;
};

} // namespace

OpenOptions test::options_in(Precision precision, Sources sources, bool round_operands) {
    OpenOptions options = open_options();
    options.precision = precision;
    options.sources = sources;
    options.round_operands = round_operands;
    return options;
}

double test::cancelling(const Values& terms, const Values& sums) {
    const auto squares = [](const Values& values) {
        double sum = 0;
        for (const double value : values) sum += std::isfinite(value) ? value * value : 0;
        return sum;
    };
    return std::max(1.0, std::sqrt(squares(terms) / squares(sums)));
}

unsigned test::check_every_candidate(Choosing& on, const ConvShape& s, bool bias, std::string_view variant,
                                     const Kernels& kernels) {
    INFO(text(s), bias ? "" : ", no bias");
    const Tensors t(s, bias);
    const uint with_bias = bias ? 1 : 0;
    Device& device = *on.device;
    Expected y(t, [&](const Tensors& rounded) {
        return reference::relu(reference::conv2d(s, widen(rounded.x), widen(rounded.w), widen(rounded.b)));
    });
    unsigned ways = on.with_each(
        launch(kernels.forward, {.shape = s, .relu = 1, .bias = with_bias, .splits = 1}),
        [&](const Candidate& way) { y.check("y", forward(device, kernels, s, t, true), way); }, variant);
    Expected dx(t, [&](const Tensors& rounded) {
        return reference::relu_gradient(
            widen(t.x), reference::conv2d_data_gradient(s, widen(rounded.w), widen(rounded.dy)));
    });
    ways += on.with_each(
        launch(kernels.data, {.shape = s, .relu = 1, .splits = 1}),
        [&](const Candidate& way) { dx.check("dx", data_gradient(device, kernels, s, t, true), way); },
        variant);
    Expected dw(t, [&](const Tensors& rounded) {
        return reference::conv2d_weights_gradient(s, widen(rounded.x), widen(rounded.dy));
    });
    Expected db(
        t, [&](const Tensors& rounded) { return reference::conv2d_bias_gradient(s, widen(rounded.dy)); });
    const double cancelled = cancelling(widen(t.dy), db.of(Precision::fp32));
    return ways + on.with_each(
                      launch(kernels.weights, {.shape = s, .bias = with_bias, .splits = 1}),
                      [&](const Candidate& way) {
                          const WeightGradients measured = weight_gradients(device, kernels, s, t, 0);
                          dw.check("dw", measured.dw, way);
                          if (!bias) return;
                          // Fragments add up what they multiply, all others the gradients themselves.
                          const bool by_fragments = is_by_fragments(way);
                          check_near("db", measured.db,
                                     db.of(by_fragments ? way.config.operands : Precision::fp32),
                                     cancelled * (by_fragments ? tolerance_of(way) : default_tolerance));
                      },
                      variant);
}

TEST_CASE("every way in which a GPU can run a convolution computes the convolution, whatever is chosen") {
    for (const std::string& id : device_ids()) {
        INFO("on ", id);
        const DeviceKind kind = device(id).info().kind;
        if (kind == DeviceKind::cpu) continue; // conv2d.cpp has all shapes for it
        std::set<std::string> tried;
        for (const Sources sources : {Sources::best, Sources::cards}) {
            if (sources == Sources::cards && kind != DeviceKind::software) continue;
            Choosing on(id, sources);
            on.tried = &tried;
            // On software drivers each pipeline takes a while to compile.
            for (const ConvShape& s :
                 {same_conv(1, 5, 4, 8, 3, 3, 1, 20), same_conv(1, 9, 9, 6, {{3, 3}, {2, 1}}, 10, 2)})
                check_every_candidate(on, s);
        }
    }
}

TEST_CASE("a convolution whose windows' rows are laid out as pixels is the convolution") {
    on_every_card([](Choosing& on) {
        for (const ConvShape& s :
             {same_conv(1, 12, 12, 3, 5, 5, 1, 64), same_conv(2, 6, 5, 1, 3, 3, 1, 4),
              same_conv(3, 5, 7, 2, 3, 3, 1, 13), same_conv(1, 9, 4, 3, {{1, 5}, {1, 1}}, 16),
              reference::padded_conv(2, 11, 10, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 48),
              reference::padded_conv(1, 9, 8, 2, {{2, 5}, {1, 3}}, {0, 1, 2, 0}, 13),
              reference::dilated_conv(1, 9, 8, 3, {{3, 5}, {1, 1}}, {2, 1}, {2, 2, 2, 2}, 20)})
            for (const bool bias : {true, false}) CHECK(check_every_candidate(on, s, bias, window_rows) >= 6);
        // Nothing is gained with fours, one wide, or by rows whose sum is as long.
        for (const ConvShape& s :
             {same_conv(1, 5, 4, 8, 3, 3, 1, 20), same_conv(1, 5, 4, 3, 3, 1, 1, 20),
              same_conv(1, 5, 4, 3, 3, 3, 1, 20), same_conv(1, 9, 9, 6, {{3, 3}, {1, 1}}, 10, 2),
              reference::dilated_conv(1, 9, 12, 3, {{5, 5}, {1, 1}}, {1, 2}, {2, 2, 4, 4}, 8)})
            CHECK(check_every_candidate(on, s, true, window_rows) == 0);
    });
}

TEST_CASE("a convolution whose channels are padded to fours is the convolution") {
    on_every_card([](Choosing& on) {
        for (const ConvShape& s : {same_conv(1, 1, 1, 1, 1, 1, 1, 1), same_conv(3, 5, 7, 3, 3, 3, 1, 13),
                                   same_conv(1, 12, 12, 3, 5, 5, 1, 64), same_conv(1, 4, 3, 8, 3, 3, 1, 10),
                                   same_conv(2, 6, 5, 1, 3, 3, 1, 4), // grey images
                                   same_conv(37, 1, 1, 13, 1, 1, 1, 10)})
            for (const bool bias : {true, false})
                CHECK(check_every_candidate(on, s, bias, padded_quads) >= 9);
        const ConvShape strided = reference::padded_conv(2, 11, 10, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 16);
        CHECK(check_every_candidate(on, strided, true, padded_quads) >= 9);
        CHECK(check_every_candidate(on, same_conv(1, 5, 4, 8, 3, 3, 1, 20), true, padded_quads) == 0);
        CHECK(check_every_candidate(on, same_conv(1, 9, 9, 6, {{3, 3}, {1, 1}}, 10, 2), true, padded_quads) ==
              0);
    });
}

} // namespace towers
