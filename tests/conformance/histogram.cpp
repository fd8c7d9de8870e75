#include "tests/conformance/harness.h"
#include "tests/conformance/reference_histogram.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

namespace towers::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Values of all sizes and both signs, many of them 0, with what is special at the beginning.
std::vector<float> mixed(std::size_t count) {
    std::vector<float> values = random_floats(count, unsigned(count));
    const std::vector<float> sizes = random_floats(count, unsigned(count) + 1, -50, 50);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? values[i] : values[i] * std::exp2(sizes[i]);
    const float special[] = {1,        -1,        FLT_MAX / 2, -0.0f,           FLT_TRUE_MIN,
                             -FLT_MIN, 0x1p-40f,  -0x1p-40f,   0x1.fffffep-41f, nan,
                             infinity, -infinity, 0x1p40f,     1.125f,          0x1.1ffffep0f};
    for (std::size_t i = 0; i < std::min(count, std::size(special)); ++i) values[i] = special[i];
    return values;
}

/// Runs the kernel onto counts that are there already.
void check_histogram(Device& device, const std::vector<float>& values) {
    const reference::Histogram expected = reference::histogram(values);
    const unsigned chunks = REDUCTION_CHUNKS(QUADS_OF(std::uint32_t(values.size())));
    Trial trial(device, (values.size() + 4 * chunks) * 4 + (std::size_t(1) << 20));
    const Tensor x = trial.input(values),
                 counts = trial.in_out(std::vector<float>(HISTOGRAM_WORDS, 0x1p-149f)),
                 partials = trial.output(4 * chunks);
    trial.run(launch(kernels::histogram, {x, counts, partials, std::uint32_t(values.size())}));
    std::vector<std::uint32_t> found = trial.words(counts);
    for (std::uint32_t& each : found) --each; // 0x1p-149 is 1
    const bool same = found == expected.counts;
    CHECK(same);
    const std::vector<float> parts = trial.floats(partials);
    double least = DBL_MAX, largest = -DBL_MAX, sum = 0, squares = 0;
    for (std::size_t i = 0; i < parts.size(); i += 4) {
        least = std::min(least, double(parts[i]));
        largest = std::max(largest, double(parts[i + 1]));
        sum += double(parts[i + 2]);
        squares += double(parts[i + 3]);
    }
    CHECK(least == expected.least);
    CHECK(largest == expected.largest);
    if (std::isinf(float(expected.squares))) return;
    CHECK(squares == doctest::Approx(expected.squares).epsilon(1e-5));
    CHECK(std::fabs(sum - expected.sum) <= 1e-5 * std::sqrt(expected.squares * double(values.size())));
}

} // namespace

KERNEL_TEST(histogram,
            "each value is counted once, in the bin of its size, however a device shares them out") {
    for (const std::size_t count : {1u, 3u, 15u, 1000u, 2047u, 2049u, 70'001u}) {
        INFO(count, " values");
        std::vector<float> small = random_floats(count, unsigned(count), -0.01f, 0.03f);
        for (std::size_t i = 0; i < count; i += 2) small[i] = std::max(small[i], 0.0f);
        on_every_device([&](Device& device) {
            check_histogram(device, small);
            check_histogram(device, mixed(count));
        });
    }
}

TEST_CASE("a histogram of nothing finite says so") {
    on_every_device([&](Device& device) {
        Trial trial(device);
        const Tensor x = trial.input(std::vector<float>(5, nan)),
                     counts = trial.in_out(std::vector<float>(HISTOGRAM_WORDS, 0)),
                     partials = trial.output(4);
        trial.run(launch(kernels::histogram, {x, counts, partials, 5u}));
        CHECK(trial.words(counts)[HISTOGRAM_NONFINITE] == 5);
        const std::vector<float> parts = trial.floats(partials);
        CHECK(parts[0] > parts[1]);
        CHECK(parts[2] == 0);
    });
}

} // namespace towers::test
