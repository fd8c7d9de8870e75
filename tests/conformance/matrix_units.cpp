// Matrix units of Vulkan's devices: which way of using them suits a card that is not there
#include "backends/launch/quads.h"
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/spirv_words.h"

#include <bit>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <set>

namespace {

using uint = std::uint32_t;
uint as_uint(float x) { return std::bit_cast<uint>(x); }
float as_float(uint bits) { return std::bit_cast<float>(bits); }
#pragma push_macro("FUNCTION")
#undef FUNCTION
#define FUNCTION inline
#include "shaders/rounded_words.h"
#pragma pop_macro("FUNCTION")

using namespace towers;
using namespace towers::vulkan;

float of_bf16(uint word) { return as_float(word << 16); }
float of_fp16(uint word) {
    const uint exponent = word >> 10 & 31, fraction = word & 1023;
    const float size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp(float(fraction), -24)
                                       : std::ldexp(float(1024 + fraction), int(exponent) - 25);
    return (word & 0x8000) != 0 ? -size : size;
}

void check_rounding(float x) {
    const uint both_bf16 = pack_bf16(x, -x), both_fp16 = pack_fp16(x, -x);
    if (std::isnan(x)) {
        CHECK(std::isnan(of_bf16(both_bf16 & 0xffff)));
        CHECK(std::isnan(of_fp16(both_fp16 & 0xffff)));
        return;
    }
    REQUIRE(of_bf16(both_bf16 & 0xffff) == rounded(x, Precision::bf16));
    REQUIRE(of_bf16(both_bf16 >> 16) == rounded(-x, Precision::bf16));
    REQUIRE(of_fp16(both_fp16 & 0xffff) == rounded(x, Precision::fp16));
    REQUIRE(of_fp16(both_fp16 >> 16) == rounded(-x, Precision::fp16));
}

constexpr unsigned both = units_for(Precision::bf16) | units_for(Precision::fp16);
const std::vector<Precision> both_types{Precision::bf16, Precision::fp16};

/// As NVIDIA's driver 580 tells of Hopper
Matrices hopper() {
    return {.shapes = {{Precision::fp16, 16, 16, 16},
                       {Precision::fp16, 16, 8, 16},
                       {Precision::fp16, 16, 8, 8},
                       {Precision::bf16, 16, 16, 16}},
            .of_any_size = true,
            .of_workgroups = both,
            .reserved_memory = 8192};
}

SubgroupSizes sizes(unsigned usual, unsigned least, unsigned most) {
    return {.usual = usual, .least = least, .most = most, .on_request = true, .most_subgroups = 64};
}

bool has_room(const Fragments& fragments, const Tile& tile, Precision operands = Precision::bf16,
              unsigned shared_memory = 48 << 10) {
    const DeviceFacts facts{
        .busy_groups = 264, .subgroup_size = 32, .fragments = fragments, .shared_memory = shared_memory};
    return has_room_for_fragments(Kernel::conv2d_forward, tile, operands, facts) &&
           has_room_for_fragments(Kernel::conv2d_backward_data, tile, operands, facts) &&
           has_room_for_fragments(Kernel::conv2d_backward_weights, tile, operands, facts);
}

} // namespace

TEST_CASE("shaders round numbers to 16 bits as the host does") {
    std::mt19937 random(7);
    for (uint exponent = 0; exponent < 256; ++exponent)
        for (int i = 0; i < 400; ++i) {
            const uint high = random() & 0x7fffff, kept = exponent << 23;
            check_rounding(as_float(kept | high));
            check_rounding(as_float(kept | (high & 0x7f0000) | 0x8000)); // halfway in bf16
            check_rounding(as_float(kept | (high & 0x7fe000) | 0x1000)); // and in fp16
        }
    for (const float x :
         {65504.0f, 65519.996f, 65520.0f, 65536.0f, 6e-8f, 2.9802322e-8f, 2.980233e-8f, 3.4e38f})
        check_rounding(x);
}

TEST_CASE("NVIDIA's cards multiply by matrices of a workgroup, a tile each") {
    const Fragments fragments = fragments_of(hopper(), sizes(32, 32, 32), false);
    CHECK(fragments.operands == both);
    CHECK(fragments.of_workgroup);
    CHECK(fragments.any_size);
    CHECK(fragments.subgroup_size == 0);
    for (const Tile& tile : fragment_tiles) CHECK(has_room(fragments, tile));
    // What the driver reserves counts.
    CHECK_FALSE(has_room(fragments, {128, 128, 256}, Precision::bf16, (48 << 10) - 1));
    CHECK(fragments.in_parts);
    CHECK(units_of({.shared_memory = 48 << 10, .subgroups = sizes(32, 32, 32), .matrices = hopper()}) ==
          both_types);

    Matrices without = hopper(); // as of older drivers
    without.of_any_size = false;
    without.of_workgroups = 0;
    const Fragments of_subgroups = fragments_of(without, sizes(32, 32, 32), false);
    CHECK(of_subgroups.operands == both);
    CHECK_FALSE(of_subgroups.any_size);
    CHECK_FALSE(of_subgroups.in_parts); // whose speed nobody knows
    CHECK(of_subgroups.columns == 16);
    for (const Tile& tile : fragment_tiles) CHECK(has_room(of_subgroups, tile));
}

TEST_CASE("AMD's and Intel's cards multiply by matrices of a subgroup of the size that suits them") {
    const Matrices amd{.shapes = {{Precision::fp16, 16, 16, 16}, {Precision::bf16, 16, 16, 16}}};
    const Fragments rdna4 = fragments_of(amd, sizes(64, 32, 64), false);
    CHECK(rdna4.operands == both);
    CHECK(rdna4.invocations == 32);
    CHECK(rdna4.subgroup_size == 32);
    for (const Tile& tile : fragment_tiles) CHECK(has_room(rdna4, tile));
    CHECK(units_of({.shared_memory = 64 << 10, .subgroups = sizes(64, 32, 64), .matrices = amd}) ==
          both_types);

    const Matrices xe2{.shapes = {{Precision::fp16, 8, 16, 16}, {Precision::bf16, 8, 16, 16}}};
    const Fragments battlemage = fragments_of(xe2, sizes(32, 16, 32), false);
    CHECK(battlemage.operands == both);
    CHECK(battlemage.subgroup_size == 16);
    CHECK(battlemage.rows == 8);
    for (const Tile& tile : fragment_tiles) CHECK(has_room(battlemage, tile));

    const Matrices dg2{.shapes = {{Precision::fp16, 8, 8, 16}}};
    const Fragments alchemist = fragments_of(dg2, sizes(32, 8, 32), false);
    CHECK(alchemist.operands == units_for(Precision::fp16));
    CHECK(alchemist.subgroup_size == 8);
    CHECK(has_room(alchemist, {64, 64, 128}, Precision::fp16));

    // No tile is as small as the registers of an invocation on Intel's.
    for (const Matrices& matrices : {xe2, dg2})
        CHECK(units_of({.shared_memory = 64 << 10, .subgroups = sizes(32, 8, 32), .matrices = matrices})
                  .empty());
    // What cannot be cut out of slices, or be shared out, is not used.
    const Matrices wide{.shapes = {{Precision::fp16, 64, 32, 64}, {Precision::fp16, 0, 0, 0}}};
    CHECK(fragments_of(wide, sizes(64, 64, 64), false).operands == 0);
    const Matrices small{.shapes = {{Precision::fp16, 8, 8, 8}}};
    CHECK(units_of({.shared_memory = 32 << 10, .subgroups = sizes(32, 32, 32), .matrices = small}).empty());

    SubgroupSizes fixed = sizes(64, 32, 64); // by a driver that does not let a pipeline ask
    fixed.on_request = false;
    CHECK(fragments_of(amd, fixed, false).operands == 0);
    CHECK(fragments_of({}, sizes(32, 32, 32), false).operands == 0);
}

TEST_CASE("a shader with bfloat16 has it instead of float16, and is otherwise the same") {
    // Capabilities Shader and Float16, a memory model, types of 16 and of 32 bits
    const std::uint32_t code[] = {0x07230203,
                                  0x10600,
                                  0,
                                  9,
                                  0,
                                  2 << 16 | 17,
                                  1,
                                  2 << 16 | 17,
                                  9,
                                  3 << 16 | 14,
                                  5348,
                                  3,
                                  3 << 16 | 22,
                                  7,
                                  16,
                                  3 << 16 | 22,
                                  8,
                                  32};
    const std::uint32_t expected[] = {0x07230203,
                                      0x10600,
                                      0,
                                      9,
                                      0,
                                      2 << 16 | 17,
                                      1,
                                      2 << 16 | 17,
                                      5116,
                                      2 << 16 | 17,
                                      5118,
                                      6 << 16 | 10,
                                      0x5f565053,
                                      0x5f52484b,
                                      0x6f6c6662,
                                      0x36317461,
                                      0,
                                      3 << 16 | 14,
                                      5348,
                                      3,
                                      4 << 16 | 22,
                                      7,
                                      16,
                                      0,
                                      3 << 16 | 22,
                                      8,
                                      32};
    const std::vector<std::uint32_t> changed = as_bfloat16(code);
    CHECK(std::ranges::equal(changed, expected));
    CHECK(std::string(reinterpret_cast<const char*>(&changed[12])) == "SPV_KHR_bfloat16");
}

TEST_CASE("each source by fragments is another shader, for its type and its matrices") {
    if (!has_fragment_sources) {
        MESSAGE("SKIPPED: this build has no matrix units of Vulkan");
        return;
    }
    DeviceInfo info;
    info.kind = DeviceKind::discrete_gpu;
    Matrices of_subgroups = hopper();
    of_subgroups.of_any_size = false;
    of_subgroups.of_workgroups = 0;
    std::set<const std::uint32_t*> codes;
    unsigned pipelines = 0;
    for (const Matrices& matrices : {hopper(), of_subgroups}) {
        const Details details{
            .shared_memory = 48 << 10, .subgroups = sizes(32, 32, 32), .matrices = matrices};
        for (const auto& [name, dispatch] : all_hardware_dispatches(facts_of(info, details, {}))) {
            if (name.find(" fragments ") == name.npos) continue;
            ++pipelines;
            CHECK(codes.insert(dispatch.code.data()).second);
            CHECK(dispatch.bfloat16 == !name.ends_with("fp16"));
            CHECK(dispatch.constants.size() == 5);
            CHECK(uses_subgroups(dispatch.code));
        }
    }
    // Of kernels, tiles and types, float32 in two parts by workgroups only. Beside what the driver reserves,
    // 128x128 has no room in two parts in two of the kernels.
    CHECK(pipelines == 2 * 3 * 3 * 2 + 3 * 3 - 2);
}
