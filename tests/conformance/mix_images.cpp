#include "engine/data/mix.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <bit>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::Values;

struct Case {
    std::uint32_t count, height, width, channels;
    bool apart;
};

/// Whole images, rectangles at edges and within, and examples that stay as they are.
std::vector<Mix> some_mixes(const Case& c) {
    std::vector<Mix> mixes;
    for (std::uint32_t i = 0; i < c.count; ++i) {
        const std::uint32_t top = i * 3 % c.height, left = i * 5 % c.width;
        const std::uint32_t height = (i * 7 + 1) % (c.height - top) + 1,
                            width = (i + 1) % (c.width - left) + 1;
        Mix mix{.partner = (i + 1) % c.count, .part = i % 4 == 3 ? 0.0f : i % 2 == 0 ? 1.0f : 0.3f};
        if (i % 3 == 0)
            mix.size = c.height << 16 | c.width;
        else
            mix.corner = top << 16 | left, mix.size = height << 16 | width;
        mixes.push_back(mix);
    }
    return mixes;
}

/// A second time, by loops over rectangles.
Values reference_mix(const Case& c, const std::vector<float>& images, const std::vector<Mix>& mixes) {
    Values mixed;
    for (std::size_t i = 0; i < std::size_t(c.count) * c.height * c.width * c.channels; ++i)
        mixed.push_back(double(images[i]));
    for (std::size_t i = 0; i < c.count; ++i) {
        const Mix& mix = mixes[i];
        const std::size_t partner = c.apart ? c.count + i : mix.partner;
        for (std::size_t row = mix.corner >> 16; row < (mix.corner >> 16) + (mix.size >> 16); ++row)
            for (std::size_t column = mix.corner & 0xffff;
                 column < (mix.corner & 0xffff) + (mix.size & 0xffff); ++column)
                for (std::size_t k = 0; k < c.channels; ++k) {
                    const auto at = [&](std::size_t image) {
                        return ((image * c.height + row) * c.width + column) * c.channels + k;
                    };
                    mixed[at(i)] = double(images[at(i)]) * (1 - double(mix.part)) +
                                   double(images[at(partner)]) * double(mix.part);
                }
    }
    return mixed;
}

std::vector<float> mix(Device& device, const Case& c, const std::vector<float>& images,
                       const std::vector<Mix>& mixes) {
    std::vector<std::uint32_t> words;
    for (const Mix& each : mixes)
        words.insert(words.end(),
                     {each.partner, std::bit_cast<std::uint32_t>(each.part), each.corner, each.size});
    Trial trial(device);
    const Tensor in_images = trial.input(images), in_mixes = trial.input(words);
    const Tensor mixed = trial.output(std::size_t(c.count) * c.height * c.width * c.channels);
    trial.run(launch(kernels::mix_images, {in_images, in_mixes, mixed, c.count, c.height, c.width, c.channels,
                                           c.apart ? 1u : 0u}));
    return trial.floats(mixed);
}

} // namespace

KERNEL_TEST(mix_images, "within its rectangle an image has its partner's part, else it is as it was") {
    for (const Case& c :
         {Case{1, 1, 1, 1, false}, {5, 7, 3, 3, false}, {13, 32, 32, 3, true}, {4, 5, 9, 1, true}}) {
        const std::size_t image = std::size_t(c.height) * c.width * c.channels;
        const std::vector<float> images = random_floats(image * c.count * (c.apart ? 2 : 1), 1, -2, 2);
        const std::vector<Mix> mixes = some_mixes(c);
        const Values expected = reference_mix(c, images, mixes);
        on_every_device([&](Device& device) {
            const std::vector<float> mixed = mix(device, c, images, mixes);
            check_near("mixed", mixed, expected);
            for (std::size_t i = 0; i < mixed.size(); ++i) // what is not mixed keeps its bits
                if (mixes[i / image].part == 0) CHECK(mixed[i] == images[i]);
        });
    }
}

TEST_CASE("a partner that is not needed is not looked at, and one that is replaces an image to the bit") {
    const Case c{2, 4, 4, 3, false};
    std::vector<float> images = random_floats(96, 1);
    const std::vector<Mix> mixes{{1, 0, 0, 4 << 16 | 4}, {0, 1, 0, 4 << 16 | 4}};
    std::fill(images.begin() + 48, images.end(), std::numeric_limits<float>::quiet_NaN());
    on_every_device([&](Device& device) {
        const std::vector<float> mixed = mix(device, c, images, mixes);
        for (std::size_t i = 0; i < 48; ++i) CHECK(mixed[i] == images[i]);
    });
    images = random_floats(96, 2);
    on_every_device([&](Device& device) {
        const std::vector<float> mixed = mix(device, c, images, mixes);
        for (std::size_t i = 0; i < 48; ++i) CHECK(mixed[48 + i] == images[i]);
    });
}

} // namespace towers
