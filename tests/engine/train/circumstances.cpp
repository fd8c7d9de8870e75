#include "engine/train/circumstances.h"

#include "backends/error.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <string>

namespace towers {
namespace {

Circumstances of_two() {
    return {{{{"cpu", "EPYC"}, "oneDNN 2.6.3, 2 threads", {6, 2}},
             {{"vulkan:0", "llvmpipe", {7, 0xab}}, "Mesa 22", {2, 1}}},
            2};
}

} // namespace

TEST_CASE("a checkpoint's metadata tell each tower's device, share and micro-batches") {
    TensorFile file;
    CHECK_FALSE(circumstances_in(file, "early.safetensors"));
    put(of_two(), file);
    const auto found = circumstances_in(file, "now.safetensors");
    REQUIRE(found);
    CHECK(found->threads == 2);
    CHECK(changes_of_devices(*found, of_two()).empty());
    REQUIRE(found->shares());
    CHECK(found->shares()->shares == std::vector{6u, 2u});
    CHECK(found->shares()->micro_batches == std::vector{2u, 1u});
    CHECK(found->devices() == of_two().devices());

    std::string& towers = file.metadata["towers"];
    const std::size_t uuid = towers.find("07ab");
    REQUIRE(uuid != std::string::npos);
    towers[uuid] = 'x';
    CHECK_THROWS_AS(circumstances_in(file, "other.safetensors"), InputError);
    towers.erase(uuid - 1, 34); // with its quotes
    CHECK_THROWS_AS(circumstances_in(file, "other.safetensors"), InputError);
    file.metadata["towers"] = R"([{"device":"cpu","driver":"1","micro_batches":1,"name":"EPYC","share":4}])";
    CHECK(circumstances_in(file, "early.safetensors")->devices() == std::vector{DeviceRecord{"cpu", "EPYC"}});

    file.metadata["towers"].pop_back();
    CHECK_THROWS_WITH_AS(
        circumstances_in(file, "cut.safetensors"),
        "cut.safetensors: 'towers' or 'threads' in its metadata is damaged; use another checkpoint",
        InputError);
}

TEST_CASE("the user is told of each tower whose device, driver or threads are others") {
    Circumstances now = of_two();
    now.towers[0].driver = "oneDNN 2.6.3, 1 thread";
    now.towers[1].device.name = "SwiftShader";
    CHECK(
        changes_of_devices(of_two(), now) ==
        std::vector<std::string>{"cpu from EPYC (oneDNN 2.6.3, 2 threads) to EPYC (oneDNN 2.6.3, 1 thread); "
                                 "the last bits of the results may change",
                                 "vulkan:0 from llvmpipe (Mesa 22) to SwiftShader (Mesa 22); "
                                 "the last bits of the results may change"});
    now = of_two();
    now.towers[1].device.id = "vulkan:1"; // where it was found
    CHECK(changes_of_devices(of_two(), now).empty());
    now.towers[1].device.uuid = {8};
    CHECK(changes_of_devices(of_two(), now) ==
          std::vector<std::string>{"vulkan:1 from one llvmpipe to another"});
    now.towers[1].device.uuid = {}; // not known
    CHECK(changes_of_devices(of_two(), now).empty());
}

TEST_CASE("shares that are not known before the first step are not recorded") {
    const Dataset data = test::noise(16);
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 16);
    CHECK(circumstances_of(Trainer(test::small_recipe(), options, data)).shares()->shares ==
          std::vector{8u, 8u});
    options.shares.automatic = true;
    Trainer trainer(test::small_recipe(), options, data);
    const Circumstances before = circumstances_of(trainer);
    CHECK(before.towers.size() == 2);
    CHECK(before.towers[1].device.id == "cpu");
    CHECK_FALSE(before.shares());
    trainer.step();
    CHECK(circumstances_of(trainer).shares()->shares == trainer.last_shares());
}

} // namespace towers
