// How much a kernel computes, counted.
#include "backends/launch/costs.h"
#include "backends/launch/variants.h"
#include "tests/conformance/conv2d_trials.h"
#include "tests/emulated_cuda/blocks.h"

using namespace towers;
using namespace towers::test;
using reference::padded_conv;

namespace {

/// Of the gradient of a convolution's images by quads, the slices of an average tile
double slices_of(const ConvShape& s) {
    const LimitConfigs whole({.splits = 1, .winograd_tile = 1});
    const auto card = open_device("cuda:0", open_options());
    const Tensors t(s);
    const std::uint64_t before = emulated::passed_barriers();
    data_gradient(*card, general, s, t, false, 1);
    constexpr unsigned runs = 3; // of a trial
    const double barriers = double(emulated::passed_barriers() - before) / runs;
    for (const Candidate& candidate : card->candidates(data_gradient_of(general, s)))
        if (candidate.used && candidate.variant == quads_source)
            return barriers / candidate.config.groups.x - 1; // the barrier before the first slice
    return -1;
}

ConvShape conv(uint height, uint window, uint stride, uint before) {
    return padded_conv(2, height, 16, 64, {{window, window}, {stride, stride}},
                       {before, before, before, before}, 64);
}

} // namespace

TEST_CASE("a strided convolution's gradient multiplies each pixel by the taps that saw it and no others") {
    constexpr unsigned of_tap = 64 / slice_depth;
    CHECK(slices_of(conv(16, 3, 1, 1)) == 9 * of_tap);
    CHECK(slices_of(conv(16, 3, 2, 1)) == 9 * of_tap / 4.);
    CHECK(slices_of(conv(16, 1, 1, 0)) == of_tap);
    CHECK(slices_of(conv(16, 1, 2, 0)) == of_tap / 4.);
    CHECK(slices_of(conv(16, 5, 2, 2)) == 25 * of_tap / 4.);
    // Of 17 rows one phase has nine, which need a tile more; the other one's is left out.
    CHECK(slices_of(conv(17, 2, 2, 0)) < of_tap);
}

TEST_CASE("an emulated card has units for all types and multiplies in the precision that it is given") {
    const Launch large =
        forward_of(general, padded_conv(2, 64, 64, 64, {{1, 1}, {1, 1}}, {0, 0, 0, 0}, 64), true);
    for (const Precision precision : all_precisions) {
        INFO(std::string(name_of(precision)));
        OpenOptions options = open_options();
        options.precision = precision;
        const auto card = open_device("cuda:0", options);
        bool offered = false;
        for (const Candidate& each : card->candidates(large)) {
            if (each.used) {
                CHECK(each.variant == (precision == Precision::fp32 ? quads_source : fragments_source));
                CHECK(each.config.operands == precision);
            }
            offered = offered || each.variant == fragments_source;
        }
        CHECK(offered);
    }
}
