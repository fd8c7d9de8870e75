#include "engine/data/philox.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <cmath>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::Values;

struct Example {
    std::uint32_t record, epoch;
};

struct Case {
    std::uint32_t elements;
    float keep;
    std::uint32_t layer = 3;
    std::uint64_t seed = 0x123456789abcdef0;
    std::vector<Example> examples{{7, 0}, {0, 1}, {49999, 13}};

    std::uint32_t count() const { return elements * std::uint32_t(examples.size()); }
};

/// Uses the host's generator, which is independent of the kernels'.
bool kept(const Case& c, std::size_t i) {
    const Example& example = c.examples[i / c.elements];
    const auto element = std::uint32_t(i % c.elements);
    const auto words = philox4x32({example.record, example.epoch, 0x80000000u + c.layer, element / 4},
                                  {std::uint32_t(c.seed), std::uint32_t(c.seed >> 32)});
    return double(words[element % 4] >> 8) / double(1 << 24) < double(c.keep);
}

std::vector<float> dropout(Device& device, const Case& c, const std::vector<float>& values) {
    std::vector<std::uint32_t> words;
    for (const Example& example : c.examples) // of any slot and label
        words.insert(words.end(), {std::uint32_t(words.size()), example.record, example.epoch, 9});
    Trial trial(device);
    const Tensor x = trial.input(values), examples = trial.input(words), y = trial.output(values.size());
    trial.run(launch(kernels::dropout, {x, examples, y, std::uint32_t(c.seed), std::uint32_t(c.seed >> 32),
                                        c.layer, c.elements, c.count(), c.keep}));
    return trial.floats(y);
}

} // namespace

KERNEL_TEST(dropout, "the dropped elements depend only on seed, record, epoch and layer, on every device") {
    for (const std::uint32_t elements : {1u, 3u, 4u, 13u, 127u, 2048u})
        for (const float keep : {0.5f, 0.8f, 0.05f}) {
            const Case c{elements, keep};
            INFO(elements, " elements, keep ", keep);
            const std::vector<float> values = random_floats(c.count(), 1);
            Values expected = widen(values);
            for (std::size_t i = 0; i < expected.size(); ++i)
                expected[i] = kept(c, i) ? expected[i] / double(keep) : 0;
            on_every_device([&](Device& device) { check_near("y", dropout(device, c, values), expected); });
        }
}

TEST_CASE("dropout that keeps everything changes no bit") {
    const Case c{127, 1};
    const std::vector<float> values = random_floats(c.count(), 1);
    on_every_device([&](Device& device) {
        const bool same = dropout(device, c, values) == values;
        CHECK(same);
    });
}

TEST_CASE("dropout keeps the right fraction, and other elements in another epoch, layer or run") {
    const Case one{4096, 0.8f, 3, 1, {{5, 1}}};
    const std::vector<float> ones(4096, 1);
    on_every_device([&](Device& device) {
        const std::vector<float> y = dropout(device, one, ones);
        double mean = 0;
        for (const float value : y) mean += double(value) / 4096;
        CHECK(std::abs(mean - 1) < 0.04); // five standard deviations
        Case other_record = one, other_epoch = one, other_layer = one, other_seed = one;
        other_record.examples[0].record = 6;
        other_epoch.examples[0].epoch = 2;
        other_layer.layer = 4;
        other_seed.seed = 2;
        for (const Case& other : {other_record, other_epoch, other_layer, other_seed}) {
            const std::vector<float> z = dropout(device, other, ones);
            double differ = 0;
            for (std::size_t i = 0; i < z.size(); ++i) differ += z[i] != y[i];
            CHECK(std::abs(differ / 4096 - 2 * 0.8 * 0.2) < 0.04); // as if independent
        }
    });
}

TEST_CASE("an example loses the same elements in another batch") {
    const Case three{13, 0.5f};
    const Case alone{13, 0.5f, three.layer, three.seed, {three.examples[2]}};
    const std::vector<float> values(three.count(), 1);
    on_every_device([&](Device& device) {
        const std::vector<float> y = dropout(device, three, values);
        const bool same =
            dropout(device, alone, std::vector<float>(13, 1)) == std::vector<float>(y.begin() + 26, y.end());
        CHECK(same);
    });
}

TEST_CASE("a NaN or an infinity that dropout keeps stays visible") {
    const Case c{127, 0.5f};
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
        on_every_device([&](Device& device) {
            const std::vector<float> y = dropout(device, c, std::vector<float>(c.count(), bad));
            for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isfinite(y[i]) == !kept(c, i));
        });
}

} // namespace towers
