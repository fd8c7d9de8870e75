// Products whose factors are rounded: on the units that a device has for a precision, and on a CPU that shows
// a precision's effect.
#include "backends/precision.h"

#include "tests/conformance/choosing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace towers {

using namespace test;
using reference::same_conv;

TEST_CASE("numbers are rounded to the nearest of each type, of two to the even one") {
    CHECK(rounded(1.0f + 0x1p-11f, Precision::tf32) == 1.0f); // half of the last digit
    CHECK(rounded(1.0f + 0x1.8p-11f, Precision::tf32) == 1.0f + 0x1p-10f);
    CHECK(rounded(1.0f + 0x3p-11f, Precision::tf32) == 1.0f + 0x1p-9f);
    CHECK(rounded(-1.0f - 0x1p-8f, Precision::bf16) == -1.0f);
    CHECK(rounded(-1.0f - 0x3p-8f, Precision::bf16) == -1.0f - 0x1p-6f);
    CHECK(rounded(0x1.fffffep127f, Precision::bf16) == std::numeric_limits<float>::infinity());
    CHECK(rounded(65519.0f, Precision::fp16) == 65504.0f);
    CHECK(rounded(65520.0f, Precision::fp16) == std::numeric_limits<float>::infinity());
    CHECK(rounded(-65520.0f, Precision::fp16) == -std::numeric_limits<float>::infinity());
    CHECK(rounded(0x1p-24f, Precision::fp16) == 0x1p-24f);
    CHECK(rounded(0x1p-25f, Precision::fp16) == 0.0f);
    CHECK(rounded(0x1.8p-24f, Precision::fp16) == 0x1p-23f);
    CHECK(std::signbit(rounded(-0x1p-26f, Precision::fp16)));
    CHECK(rounded(0x1.002p-14f, Precision::fp16) == 0x1p-14f);
    for (const Precision precision : all_precisions) {
        CAPTURE(std::string(name_of(precision)));
        const std::vector<float> values = random_floats(1000, 5, -3.0f, 3.0f);
        double largest = 0;
        for (const float value : values) {
            const float nearest = rounded(value, precision);
            largest = std::max(largest, std::abs(double(nearest) - value) / std::abs(double(value)));
            CHECK(rounded(nearest, precision) == nearest);
        }
        CHECK(largest <= rounding_of(precision));
        if (precision != Precision::fp32) CHECK(largest > 0.8 * rounding_of(precision));
        for (const float odd : {std::numeric_limits<float>::infinity(), 0.0f, -0.0f}) {
            CHECK(rounded(odd, precision) == odd);
            CHECK(std::signbit(rounded(-odd, precision)) == std::signbit(-odd));
        }
        for (const std::uint32_t payload : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u})
            CHECK(std::isnan(rounded(std::bit_cast<float>(payload), precision)));
        CHECK(precision_of(name_of(precision)) == precision);
    }
    CHECK_FALSE(precision_of("half"));
}

TEST_CASE("every way in which a device computes products with rounded factors is right") {
    with_each_rounding([](Choosing& on, Precision) {
        const bool is_cpu = on.device->info().kind == DeviceKind::cpu;
        for (const ConvShape& s :
             {same_conv(2, 9, 8, 16, 3, 3, 1, 32), same_conv(1, 9, 9, 6, {{3, 3}, {2, 1}}, 10, 2),
              same_conv(5, 1, 1, 64, 1, 1, 1, 10), same_conv(2, 8, 8, 32, {{1, 1}, {2, 2}}, 64),
              same_conv(3, 7, 5, 3, 5, 5, 1, 16)})
            CHECK(check_every_candidate(on, s) >= 3);
        if (is_cpu) // a sum over many pixels, in pieces
            check_every_candidate(on, same_conv(40, 16, 16, 16, 3, 3, 1, 16));
    });
}

TEST_CASE("a CPU that rounds operands does so with every product, in every precision but float32") {
    for (const Precision precision : all_precisions) {
        Choosing on("cpu", options_in(precision, Sources::best, true));
        const ConvShape s = same_conv(2, 9, 8, 3, 3, 3, 1, 16);
        for (const Launch& each : {forward_of(general, s, true), data_gradient_of(general, s),
                                   weight_gradients_of(general, s, true)})
            for (const Candidate& candidate : on.device->candidates(each))
                if (candidate.used) CHECK(candidate.config.operands == precision);
    }
}

TEST_CASE("a device has units for what its products may round to, and for nothing else") {
    for (const std::string& id : device_ids())
        for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
            INFO("on ", id, " in ", std::string(name_of(precision)));
            Choosing on(id, options_in(precision));
            const std::vector<Candidate> ways =
                on.device->candidates(forward_of(general, same_conv(2, 8, 8, 64, 3, 3, 1, 64), true));
            const bool rounds = std::ranges::any_of(
                ways, [&](const Candidate& each) { return each.config.operands == precision; });
            const std::vector<Precision>& units = on.device->info().units;
            CHECK(rounds == (std::ranges::find(units, precision) != units.end()));
        }
}

} // namespace towers
