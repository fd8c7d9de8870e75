#include "engine/data/feed.h"
#include "backends/upload.h"
#include "engine/data/sampler.h"
#include "engine/data/source.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace towers {
namespace {

using SlotOf = std::uint32_t (*)(std::uint32_t record);

constexpr std::uint32_t all_records = 20;
/// Other slots than the records' numbers, with empty slots between them.
std::uint32_t scattered(std::uint32_t record) { return 2 * (all_records - 1 - record) + 1; }
std::uint32_t in_order(std::uint32_t record) { return record; }

/// The images of the data in these slots, with something else in the others.
Dataset placed(const Dataset& data, SlotOf slot_of) {
    const std::size_t image = data.image_size().elements();
    std::vector<std::uint8_t> all((2 * all_records + 1) * image, 99);
    for (std::uint32_t record = 0; record < all_records; ++record)
        data.read(record, 1, std::span(all).subspan(slot_of(record) * image, image));
    return {data.info(), std::move(all), std::vector<std::uint32_t>(2 * all_records + 1)};
}

/// Dropout, and what the augmentation has: crops, flips, changes of contrast about an image's mean, and what
/// these lines of [pipeline.train] ask for.
Recipe augmented_recipe(const std::string& more = "") {
    return parse_recipe("augmented", R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  { name = "conv", kind = "conv2d", filters = 8, kernel = 3, stride = 2 },
  { kind = "dropout", keep = 0.6 },
  { kind = "global_average_pool" },
  { name = "logits", kind = "dense", units = 10 },
]
[pipeline]
kind = "augment"
values = "signed_unit"
[pipeline.train]
box = "random_area"
flip = true
brightness = [0.7, 1.3]
contrast = [0.5, 1.5]
cutout = 5
)" + more + R"(
[optimizer]
kind = "sgd"
learning_rate = 0.1
[training]
batch = 12
steps = 10
)",
                        "augmented.toml");
}

/// The state after a step of nine examples, and the step's results.
std::vector<float> after_step(Device& device, const Recipe& recipe, const Dataset& data, SlotOf slot_of) {
    constexpr unsigned batch = 9;
    const StateLayout layout = layout_of(recipe);
    const Dataset images = placed(data, slot_of);
    NetworkSpec spec = test::spec_of(recipe, layout, batch, images.size());
    spec.seed = 5;
    spec.distort = true;
    const TrainingPlan training = plan_single_step(spec, test::update_of(recipe, layout));
    const Plan& plan = training.plan;

    std::array<Buffer, arena_count> arenas;
    std::array<const Buffer*, arena_count> pointers{};
    for (std::size_t i = 0; i < arena_count; ++i) {
        if (const std::size_t bytes = plan.bytes(Arena(i)))
            arenas[i] = device.allocate(bytes, is_staging(Arena(i)) ? Memory::staging : Memory::device);
        pointers[i] = &arenas[i];
    }
    const auto arena = [&](Arena which) -> const Buffer& { return arenas[std::size_t(which)]; };
    load_images(images, device, arena(Arena::records));
    std::vector<float> state = initial_state(layout, 5);
    upload(device, arena(Arena::state), std::as_bytes(std::span(state)));
    std::vector<Example> examples(batch);
    Sampler(all_records, 5, true).fill(15, examples); // across the end of an epoch
    ResidentFeed(data).bring(examples);
    for (Example& each : examples) each.slot = slot_of(each.record);
    arena(Arena::staged_step).host<float>()[STEP_LEARNING_RATE] = 0.1f;
    std::ranges::copy(
        examples,
        arena(Arena::staged_step).host<Example>().subspan(step_examples_offset / sizeof(Example)).begin());
    device.run(plan.bind(pointers, 0, plan.levels().size()));
    download(device, arena(Arena::state), std::as_writable_bytes(std::span(state)));
    const std::span<float> results = arena(Arena::staged_results).host<float>();
    state.insert(state.end(), results.begin(), results.end());
    return state;
}

} // namespace

TEST_CASE("images are loaded into the slots of their records' numbers, in however many pieces") {
    const Dataset small = test::noise(50);
    std::vector<std::uint8_t> images(20 * 491'401); // in three pieces
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = std::uint8_t(i * 7 + i / 251);
    const Dataset large({"large", {"one"}, {701, 701, 1}}, std::move(images), std::vector<std::uint32_t>(20));
    REQUIRE(large.piece() < large.size());
    for (const std::string& id : test::device_ids())
        for (const Dataset* data : {&small, &large}) {
            CAPTURE(id);
            Device& device = test::device(id);
            const Buffer records = device.allocate(data->images().size(), Memory::device);
            load_images(*data, device, records);
            std::vector<std::uint8_t> back(data->images().size());
            download(device, records, std::as_writable_bytes(std::span(back)));
            const bool same = std::ranges::equal(back, data->images());
            CHECK(same);
        }
}

TEST_CASE("a resident feed gives each example its record's slot and label, and leaves the rest") {
    const Dataset data = test::noise(50);
    static_assert(std::is_copy_assignable_v<ResidentFeed>, "it refers to nothing that may be gone");
    auto passing = std::make_unique<Dataset>(data);
    const ResidentFeed feed(*passing);
    passing.reset(); // only loading needs it
    CHECK(feed.slots() == 50);
    std::vector<Example> examples{{.record = 49, .epoch = 3}, {.record = 0, .epoch = 4}};
    feed.bring(examples);
    CHECK(examples == std::vector<Example>{{49, 49, 3, data.labels()[49]}, {0, 0, 4, data.labels()[0]}});
}

TEST_CASE("records in other slots give the same bits") {
    const Dataset data = test::noise(all_records);
    for (const Recipe& recipe :
         {test::small_recipe(), augmented_recipe(),
          augmented_recipe("trivial_augment = true\nerasing = { probability = 1, mode = \"pixel\" }")})
        for (const std::string& id : test::device_ids()) {
            CAPTURE(recipe.name);
            CAPTURE(id);
            const std::vector<float> expected = after_step(test::device(id), recipe, data, in_order);
            const bool same = after_step(test::device(id), recipe, data, scattered) == expected;
            CHECK(same);
            const std::vector<float> before = initial_state(layout_of(recipe), 5);
            CHECK_FALSE(std::equal(before.begin(), before.end(), expected.begin()));
        }
}

} // namespace towers
