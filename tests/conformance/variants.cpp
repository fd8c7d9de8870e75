// Which variant runs a launch.
#include "backends/launch/variants.h"

#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

namespace towers {
namespace {

using namespace test;
using reference::same_conv;

struct Named : Variant {};

std::optional<LaunchConfig> few_config(const Launch& launch, const DeviceFacts& facts) {
    if (items_of(launch) > facts.busy_groups) return {};
    return LaunchConfig{.groups = {7, 1, 1}};
}

constexpr Named table[] = {
    {{Kernel::relu_forward, "for few", few_config}},
    {{Kernel::relu6_forward, "other",
      [](const Launch&, const DeviceFacts&) { return std::optional<LaunchConfig>(LaunchConfig{}); }}},
    {{Kernel::relu_forward, "for all",
      [](const Launch&, const DeviceFacts&) { return std::optional<LaunchConfig>(LaunchConfig{}); }}}};

Launch relu(uint count) { return launch(kernels::relu_forward, {.count = count}); }

Launch forward(const ConvShape& s) { return launch(kernels::conv2d_forward, {.shape = s}); }

} // namespace

TEST_CASE("the first variant of the kernel that takes the launch on the device runs it") {
    const std::span<const Named> variants = table;
    const DeviceFacts facts{.busy_groups = 100, .subgroup_size = 1};
    const auto few = choose(variants, relu(100), facts);
    REQUIRE(few.variant != nullptr);
    CHECK(few.variant->name == "for few");
    CHECK(few.config.groups.x == 7);
    CHECK(choose(variants, relu(101), facts).variant->name == "for all");
    CHECK(choose(variants, launch(kernels::relu6_forward, {.count = 1}), facts).variant->name == "other");
    CHECK(choose(variants, launch(kernels::silu_forward, {.count = 1}), facts).variant == nullptr);
}

TEST_CASE("a device tells what it would run a launch with") {
    const ConvShape plain = same_conv(1, 8, 8, 4, 3, 3, 1, 4), strided = same_conv(1, 8, 8, 4, 3, 3, 2, 4),
                    odd = same_conv(1, 8, 8, 3, 3, 3, 1, 4);
    on_every_device([&](Device& device) {
        const bool cpu = device.info().kind == DeviceKind::cpu;
        const bool software = device.info().kind == DeviceKind::software;
        const std::string_view card = software ? "shared text" : "quads";
        CHECK(variant_of(device, relu(5)) == "shared text");
        CHECK(variant_of(device, forward(plain)) == (cpu        ? "oneDNN"
                                                     : software ? "software convolution"
                                                                : card));
        CHECK(variant_of(device, forward(strided)) == (cpu ? "oneDNN" : card));
        CHECK(variant_of(device, forward(odd)) == (cpu        ? "oneDNN"
                                                   : software ? "software convolution"
                                                              : "shared text"));
        CHECK(variant_of(device, launch(kernels::lrn_forward, {.pixels = 1, .channels = 1})) ==
              (cpu ? "vectorized loops" : "shared text"));
    });
}

} // namespace towers
