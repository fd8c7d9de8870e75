#include "engine/execution/staged_images.h"
#include "backends/upload.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/replica/tower_set.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace towers {
namespace {

/// Five examples of seven bytes at a position.
struct FiveExamples {
    explicit FiveExamples(std::uint64_t first) : examples(5), images(35) {
        for (std::size_t i = 0; i < images.size(); ++i) images[i] = std::uint8_t(first * 7 + i);
        batch = {first, examples, images};
    }
    std::vector<Example> examples;
    std::vector<std::uint8_t> images;
    Batch batch;
};

constexpr std::size_t slots = StagedImages::slots(5), bytes = slots * 7;

ArenaBytes needed() {
    ArenaBytes all{};
    all[std::size_t(Arena::records)] = all[std::size_t(Arena::staged_records)] = bytes;
    return all;
}

/// The images that the device has from this slot on.
std::vector<std::uint8_t> images_at(const Session& session, std::uint32_t slot) {
    std::vector<float> words(bytes / sizeof(float));
    session.download(Arena::records, words);
    const auto* const found = reinterpret_cast<const std::uint8_t*>(words.data()) + slot * 7;
    return {found, found + 35};
}

} // namespace

TEST_CASE("images of one step and the next lie in two halves, and are copied once") {
    static_assert(slots == 16 && StagedImages::slots(8) == 16 && StagedImages::slots(9) == 32);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        unsigned submitted = 0;
        test::ScriptedDevice device(test::reuse_device(id, test::open_options()),
                                    {.submit = [&] { ++submitted; }});
        Session session(device);
        session.hold(needed());
        StagedImages staged(session, bytes);
        const FiveExamples one(0), two(5), three(10);
        const auto bring = [&](const FiveExamples& which) {
            const std::vector<Example> placed = staged.choose(which.batch);
            REQUIRE(placed.size() == 5);
            const std::uint32_t slot = placed[0].slot;
            for (std::uint32_t i = 0; i < 5; ++i) CHECK(placed[i].slot == slot + i);
            staged.stage(which.batch);
            device.wait(staged.upload());
            CHECK(images_at(session, slot) == which.images);
            return slot;
        };
        CHECK(bring(one) == 0);
        unsigned before = submitted;
        CHECK(bring(one) == 0);         // as when a step is repeated
        CHECK(submitted == before + 1); // the test's download
        staged.upload_prefetched();
        CHECK(submitted == before + 1);
        staged.prefetch(two.batch);
        staged.upload_prefetched();
        before = submitted;
        CHECK(bring(two) == 8);
        CHECK(submitted == before + 1);
        staged.prefetch(one.batch); // but another one comes
        staged.upload_prefetched();
        CHECK(bring(three) == 0);
        CHECK(images_at(session, 8) == two.images);
        staged.forget();
        before = submitted;
        CHECK(bring(three) == 8);
        CHECK(submitted == before + 2);
    }
}

TEST_CASE("a share brings its partners' images too, each once, and those that it has not at all") {
    static_assert(StagedImages::slots(5, 4) == 32);
    constexpr std::uint64_t first = 24; // of a global batch of 12, of which this share has examples 4 to 8
    std::vector<Example> examples(12);
    std::vector<std::uint8_t> images(12 * 7);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = std::uint8_t(i);
    BatchTables tables;
    for (std::uint32_t i = 0; i < 12; ++i) {
        examples[i].record = i;
        tables.mixes.push_back({.partner = (i + 2) % 12, .part = 0.5f});
    }
    const Batch batch = Batch::all(first, examples, images, tables).slice(4, 5);
    CHECK(strangers(batch) == std::vector<std::uint32_t>{9, 10});
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const std::unique_ptr<Device> device = test::reuse_device(id, test::open_options());
        Session session(*device);
        constexpr std::size_t size = StagedImages::slots(5, 2) * 7;
        ArenaBytes needed{};
        needed[std::size_t(Arena::records)] = needed[std::size_t(Arena::staged_records)] = size;
        session.hold(needed);
        StagedImages staged(session, size);
        const std::vector<Example> placed = staged.choose(batch);
        staged.stage(batch);
        device->wait(staged.upload());
        std::vector<float> words(size / sizeof(float));
        session.download(Arena::records, words);
        REQUIRE(placed.size() == 10);
        for (std::size_t i = 0; i < placed.size(); ++i) {
            CHECK(placed[i].record == 4 + i % 5 + (i < 5 ? 0 : 2));
            const auto* const found =
                reinterpret_cast<const std::uint8_t*>(words.data()) + placed[i].slot * std::size_t(7);
            CHECK(*found == placed[i].record * 7);
        }
    }
}

TEST_CASE("the next step's images are copied while a tower computes, if the device can do both") {
    const test::VirtualClock clock;
    const Recipe recipe = test::small_recipe();
    const StateLayout layout = layout_of(recipe);
    const UpdateSpec update = test::update_of(recipe, layout);
    const Dataset data = test::noise(16);
    const std::vector<Example> examples(8);
    const std::size_t image = data.image_size().elements();
    const double of_byte = 0.5 / double(8 * image);
    for (const bool ready : {false, true}) { // whether the next batch has been read in time
        auto device = std::make_unique<test::SimulatedDevice>(
            "gpu", [&](const Launch& launch) { return launch.kernel == Kernel::distort_images ? 1.0 : 0.0; },
            test::Link{of_byte});
        const Planner plan = [&](const Share& share, unsigned most) {
            const unsigned batch = share.examples;
            NetworkSpec spec = test::spec_of(recipe, layout, batch, StagedImages::slots(batch));
            spec.staged = true;
            spec.most = most;
            return plan_single_step(spec, update);
        };
        const auto batch_at = [&](std::uint64_t first) {
            return Batch{first, examples, data.images().first(8 * image)};
        };
        std::uint64_t at = 0;
        TowerSetOptions options{.host = test::open_options(),
                                .patience = Patience(),
                                .give_up = {},
                                .next_batch = [&] { return ready ? batch_at(at + 8) : Batch(); },
                                .trace = {},
                                .caller = PhaseClock(nullptr, "", "")};
        const auto towers =
            make_lone_tower(std::make_unique<Tower>(std::move(device), nullptr, plan, Share{8}), options);
        const ArenaBytes arenas = plan(Share{8}, 8).bytes();
        const double of_block = of_byte * double(arenas[std::size_t(Arena::staged_step)]);
        double seconds = 0;
        for (int i = 0; i < 5; ++i, at += 8) {
            towers->step({.numbers = {}, .batch = batch_at(at)}, nullptr);
            if (i > 0) seconds += towers->times(0).work;
        }
        CHECK(seconds == doctest::Approx(4 * (of_block + (ready ? 1.0 : 1.5))).epsilon(1e-3));
    }
}

} // namespace towers
