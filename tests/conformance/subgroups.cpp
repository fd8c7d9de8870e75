#include "backends/vulkan/subgroups.h"
#include "backends/vulkan/dispatch.h"

#include <doctest/doctest.h>

using namespace towers;
using namespace towers::vulkan;

namespace {

SubgroupSizes sizes(unsigned usual, unsigned least, unsigned most) {
    return {.usual = usual, .least = least, .most = most, .on_request = true, .most_subgroups = 64};
}

} // namespace

TEST_CASE("sources by quads ask for the size of subgroups that suits the device, where they can") {
    const SubgroupSizes rdna2 = sizes(64, 32, 64);
    CHECK(size_for_quads(rdna2) == 32);
    CHECK(size_for_quads(sizes(128, 64, 128)) == 64); // Adreno
    CHECK(size_for_quads(sizes(64, 64, 64)) == 0);    // GCN has no other
    CHECK(size_for_quads(sizes(32, 32, 32)) == 0);    // NVIDIA, Apple
    CHECK(size_for_quads(sizes(32, 8, 32)) == 0);     // Intel's compiler chooses by registers
    CHECK(size_for_quads(sizes(16, 16, 16)) == 0);

    SubgroupSizes rdna3 = rdna2;
    rdna3.mixed_dot_products = true;
    CHECK(size_for_quads(rdna3) == 0);
    SubgroupSizes fixed = rdna2;
    fixed.on_request = false;
    CHECK(size_for_quads(fixed) == 0);
    SubgroupSizes few = rdna2; // a workgroup of 256 has 8
    few.most_subgroups = 7;
    CHECK(size_for_quads(few) == 0);
    few.most_subgroups = 8;
    CHECK(size_for_quads(few) == 32);
}

TEST_CASE("only sources by quads ask for a size of subgroups, and for that of the device's facts") {
    DeviceInfo info;
    info.kind = DeviceKind::discrete_gpu;
    const Details details{.shared_memory = 32 << 10, .subgroups = sizes(64, 32, 64)};
    unsigned asking = 0;
    for (const auto& [name, dispatch] : all_hardware_dispatches(facts_of(info, details, {}))) {
        CHECK(dispatch.subgroup_size == (name.ends_with(" quads") ? 32 : 0));
        asking += dispatch.subgroup_size != 0;
    }
    CHECK(asking == 9);
}

TEST_CASE(
    "where subgroups are narrow, or wide as on Adreno, no tile needs more registers than an invocation has") {
    DeviceInfo info;
    info.kind = DeviceKind::integrated_gpu;
    const auto has_large_tile = [&](unsigned least, DeviceKind kind, unsigned most = 32) {
        info.kind = kind;
        const Details details{.shared_memory = 32 << 10, .subgroups = sizes(most, least, most)};
        const auto all = all_hardware_dispatches(facts_of(info, details, {.sources = Sources::cards}));
        CHECK(all.contains("conv2d_forward 64x64 quads"));
        return all.contains("conv2d_forward 128x64 quads");
    };
    CHECK_FALSE(has_large_tile(8, DeviceKind::integrated_gpu));
    CHECK_FALSE(has_large_tile(16, DeviceKind::discrete_gpu));
    CHECK_FALSE(has_large_tile(64, DeviceKind::integrated_gpu, 128));
    CHECK(has_large_tile(32, DeviceKind::discrete_gpu));
    CHECK(has_large_tile(64, DeviceKind::discrete_gpu, 64)); // AMD's GCN
    CHECK(has_large_tile(8, DeviceKind::software));          // where tests run every tile
}
