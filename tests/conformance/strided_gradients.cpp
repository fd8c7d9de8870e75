// The gradient of a strided convolution's images: by phases, each a product by quads.
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"
#include "tests/conformance/choosing.h"

#include <algorithm>
#include <random>
#include <vector>

namespace towers {
namespace {

using namespace test;
using reference::dilated_conv;
using reference::padded_conv;
using reference::same_conv;
using reference::valid_conv;
using reference::Values;

constexpr DeviceFacts card{.busy_groups = 264, .subgroup_size = 32, .quads = true, .shared_memory = 48 << 10};

Values gradient_of(const ConvShape& s, const Tensors& t) {
    return reference::relu_gradient(widen(t.x), reference::conv2d_data_gradient(s, widen(t.w), widen(t.dy)));
}

double cost_of(const ConvShape& s) { return quads_config(data_gradient_of(general, s), card)->cost; }

} // namespace

TEST_CASE("the gradient of strided images is right for any stride, window, padding and size") {
    std::mt19937 random(1);
    const auto between = [&](uint least, uint most) { return least + uint(random()) % (most - least + 1); };
    std::vector<ConvShape> shapes;
    while (shapes.size() < 40) {
        const uint groups = between(1, 2);
        const reference::Windows windows{{between(1, 5), between(1, 5)}, {between(1, 5), between(1, 5)}};
        const std::array<uint, 2> dilation{between(1, 3), between(1, 3)};
        const std::array<uint, 4> pads{between(0, 4), between(0, 4), between(0, 4), between(0, 4)};
        const uint height = between(1, 12), width = between(1, 12);
        if (height + pads[0] + pads[1] > (windows.size[0] - 1) * dilation[0] &&
            width + pads[2] + pads[3] > (windows.size[1] - 1) * dilation[1])
            shapes.push_back(dilated_conv(between(1, 3), height, width, groups * 4 * between(1, 2), windows,
                                          dilation, pads, groups * 4 * between(1, 5), groups));
    }
    on_every_card([&](Choosing& on) {
        for (const ConvShape& s : shapes) {
            INFO(text(s));
            CHECK(variant_of(*on.device, data_gradient_of(general, s)) == quads_source);
            const Tensors t(s);
            const Values dx = gradient_of(s, t);
            for (const unsigned splits : {0u, 3u})
                check_near("dx", data_gradient(*on.device, general, s, t, true, splits), dx);
        }
    });
}

TEST_CASE("the gradient of strided images is right in every way, and a choice gives the same bits again") {
    on_every_card([](Choosing& on) {
        Choosing again(on.device->info().id,
                       on.device->info().kind == DeviceKind::software ? Sources::cards : Sources::best);
        for (const ConvShape& s : {padded_conv(2, 9, 8, 32, {{3, 3}, {2, 2}}, {1, 1, 1, 1}, 64),
                                   padded_conv(1, 10, 11, 6, {{5, 2}, {3, 4}}, {2, 1, 1, 0}, 90)}) {
            INFO(text(s));
            const Tensors t(s);
            const Values dx = gradient_of(s, t);
            const unsigned ways = on.with_each(
                launch(kernels::conv2d_backward_data, {.shape = s, .relu = 1, .splits = 1}),
                [&](const Candidate&) {
                    again.choices = on.choices;
                    const std::vector<float> first = data_gradient(*on.device, general, s, t, true);
                    check_near("dx", first, dx);
                    CHECK(first == data_gradient(*again.device, general, s, t, true));
                },
                s.in_channels % 4 == 0 ? quads_source : padded_quads);
            CHECK(ways >= (s.stride_y == 2 ? 6 : 3)); // three tiles; of four phases also in parts
        }
    });
}

TEST_CASE("the estimate of a strided gradient counts what its phases multiply") {
    const auto share = [](const ConvShape& strided, const ConvShape& whole) {
        return cost_of(strided) / cost_of(whole);
    };
    const auto conv = [](uint window, uint stride, uint before) {
        return padded_conv(64, 56, 56, 256, {{window, window}, {stride, stride}},
                           {before, before, before, before}, 256);
    };
    CHECK(share(conv(3, 2, 1), conv(3, 1, 1)) == doctest::Approx(1. / 4).epsilon(0.05));
    CHECK(share(conv(4, 4, 0), conv(4, 1, 0)) == doctest::Approx(1. / 16).epsilon(0.1));
    CHECK(share(conv(1, 2, 0), conv(1, 1, 0)) < 0.4); // three quarters are zeros, which take time to store
    const ConvShape few = conv(3, 5, 1);              // of 25 phases nine see one tap each, the others none
    const LaunchConfig config = *quads_config(data_gradient_of(general, few), card);
    CHECK(config.groups.x ==
          config.splits * 25 * ceil_div(64 * 12 * 12, config.tile->height) * 256 / config.tile->width);
}

} // namespace towers
