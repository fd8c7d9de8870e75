// The model of costs beside what a card took: tests/fixtures/h200_variants.txt.
#include "backends/launch/costs.h"

#include "backends/launch/lowering.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace towers {
namespace {

struct Way {
    std::string name; ///< as to_string() says
    double us[2];     ///< on CUDA, on Vulkan
};
struct Timed {
    std::string operation, key;
    std::vector<Way> ways;
};

std::vector<Timed> timed_launches() {
    std::vector<Timed> all;
    std::istringstream lines(test::read_text(test::source_folder() / "tests/fixtures/h200_variants.txt"));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('#')) continue;
        if (line.starts_with("  ")) {
            const std::size_t bar = line.find(" | ");
            Way way{line.substr(2, bar - 2), {}};
            std::istringstream(line.substr(bar + 3)) >> way.us[0] >> way.us[1];
            all.back().ways.push_back(way);
        } else {
            const std::size_t colon = line.find(": ");
            all.push_back({line.substr(0, colon), line.substr(colon + 2), {}});
        }
    }
    return all;
}

/// The launch that has this key, without floats
Launch launch_of(const std::string& key) {
    std::istringstream words(key);
    std::string name;
    words >> name;
    const auto kernels = all_kernels();
    const auto kernel = std::ranges::find(kernels, name, &KernelInfo::name);
    REQUIRE(kernel != kernels.end());
    Launch launch{Kernel(kernel - kernels.begin()), {}};
    std::size_t at = kernel->pointers.size() * 8;
    for (std::uint32_t word; words >> word; at += sizeof word)
        std::memcpy(launch.parameters.bytes.data() + at, &word, sizeof word);
    CHECK(key_of(launch) == key);
    return launch;
}

/// Infinite: the card has no such way.
double cost_of(const Launch& launch, const std::string& way) {
    const std::size_t comma = way.find(", ");
    const ConfigLimits same{.splits =
                                comma == std::string::npos ? 1 : unsigned(std::stoul(way.substr(comma + 2)))};
    const DeviceFacts h200{
        .busy_groups = 264, .subgroup_size = 32, .quads = true, .shared_memory = 48 << 10, .limits = &same};
    for (const Candidate& each : candidates(gpu_variants(), launch, h200))
        if (to_string(each.variant, each.config) == way) return each.config.cost;
    return std::numeric_limits<double>::infinity();
}

} // namespace

TEST_CASE(
    "what the model takes for the fastest is at most a tenth slower than the fastest, on 9 of 10 launches") {
    const std::vector<Timed> launches = timed_launches();
    REQUIRE(launches.size() == 14);
    const std::string backends[] = {"CUDA, to which the model is fitted", "Vulkan"};
    for (const int backend : {0, 1}) {
        std::size_t close = 0;
        std::string table;
        for (const Timed& timed : launches) {
            const Launch launch = launch_of(timed.key);
            const auto us = [&](const Way& way) { return way.us[backend]; };
            const auto best = std::ranges::min_element(timed.ways, {}, us);
            const auto chosen = std::ranges::min_element(
                timed.ways, {}, [&](const Way& way) { return cost_of(launch, way.name); });
            close += us(*chosen) <= 1.1 * us(*best);
            table += fmt::format("\n  {:32} {:32} {:6.1f} us, by the model {:6.1f}; the best {:6.1f}",
                                 timed.operation, chosen->name, us(*chosen),
                                 cost_of(launch, chosen->name) / 1980, us(*best));
        }
        MESSAGE(backends[backend], ": ", close, " of ", launches.size(), table);
        CHECK(double(close) >= 0.9 * double(launches.size()));
    }
}

TEST_CASE("products by fragments are estimated as long as a prototype of theirs took on a card") {
    constexpr DeviceFacts card{.busy_groups = 264, .subgroup_size = 32};
    constexpr double cycles_in_us = 1980;
    struct Timed {
        Precision operands;
        unsigned tile; ///< of fragment_tiles
        Products products;
        double us; ///< on an NVIDIA H200, 2026-11-26
    };
    const Products wide{1, 512 * 16 * 16, 128, 9 * 128}, narrow{1, 128 * 56 * 56, 64, 9 * 64},
        deep{1, 512 * 8 * 8, 256, 9 * 256}, dense{1, 64 * 56 * 56, 256, 64};
    for (const Timed& each : {Timed{Precision::bf16, 2, wide, 258.8},
                              {Precision::bf16, 1, wide, 288.8},
                              {Precision::bf16, 1, narrow, 218.7},
                              {Precision::bf16, 2, deep, 255.8},
                              {Precision::bf16, 1, dense, 111.2},
                              {Precision::tf32, 1, wide, 347.5},
                              {Precision::tf32, 1, narrow, 272.6},
                              {Precision::tf32, 1, dense, 127.3},
                              {Precision::fp32, 2, wide, 363.2},
                              {Precision::fp32, 1, narrow, 343.5},
                              {Precision::fp32, 0, deep, 475.7},
                              {Precision::fp32, 0, dense, 149.1}}) {
        INFO(std::string(name_of(each.operands)), ", tile ", each.tile, ", ", each.us, " us");
        CHECK(cycles_of(each.products, fragment_tiles[each.tile], 1, fragments_costs(each.operands), card) /
                  cycles_in_us ==
              doctest::Approx(each.us).epsilon(0.13));
    }
}

TEST_CASE("a card never takes less time for products than if nothing waited") {
    constexpr DeviceFacts card{.busy_groups = 264, .subgroup_size = 32};
    const Tile tile{64, 64, 256};
    for (const Products& each :
         {Products{1, 10, 10, 10}, Products{1, 20000, 64, 1600}, Products{36, 1152, 64, 64}})
        for (const unsigned splits : {1u, 5u}) {
            const double busy = busy_cycles_of(each, tile, splits, quads_costs, card);
            CHECK(busy > 0);
            CHECK(busy <= cycles_of(each, tile, splits, quads_costs, card));
        }
}

} // namespace towers
