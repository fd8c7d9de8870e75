// What checkpoints and metrics keep of the loss scale, so that a run that goes on has an undisturbed one's
// bits.
#include "engine/observers/metrics.h"
#include "engine/train/loop.h"
#include "tests/engine/train/overflows.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/says.h"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace towers {
namespace {

using namespace test;

TrainingState through_file(const TrainingState& state, const Trainer& trainer) {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "state.safetensors";
    write_safetensors(
        path,
        to_checkpoint(
            state, trainer.layout(),
            {.recipe = trainer.recipe().name, .seed = 3, .records = 14, .checksum = 0, .settings = ""}));
    return from_checkpoint(read_safetensors(path), trainer.layout(), path);
}

} // namespace

TEST_CASE("a run that goes on from a checkpoint before or after an overflow has an undisturbed one's bits") {
    const Dataset data = one_bright_step();
    for_each_way([&](TrainerOptions options, bool ahead) {
        options.loss_scale = LossScale{high, 1994};
        Trainer whole(pixel_recipe(), options, data);
        const Run expected = run_on(whole, steps, ahead);
        for (const std::uint64_t kept : {std::uint64_t(1), bright_step, bright_step + 1}) {
            CAPTURE(kept);
            TrainingState state;
            {
                Trainer first(pixel_recipe(), options, data);
                state = through_file(run_on(first, kept, ahead).state, first);
            }
            options.loss_scale = LossScale{}; // the checkpoint's counts
            Trainer second(pixel_recipe(), options, data);
            second.load(state);
            const Run rest = run_on(second, steps, ahead);
            options.loss_scale = LossScale{high, 1994};
            CHECK(std::ranges::equal(rest.losses, std::span(expected.losses).subspan(kept)));
            CHECK(std::ranges::equal(rest.scales, std::span(expected.scales).subspan(kept)));
            CHECK(rest.state.state == expected.state.state);
            CHECK(rest.state.loss_scale == expected.state.loss_scale);
        }
    });
}

TEST_CASE("a checkpoint's loss scale belongs to runs that scale; a damaged one is refused") {
    const Dataset data = noise(12);
    TrainerOptions options = options_for({"cpu"}, 12);
    Trainer plain(small_recipe(), options, data);
    options.loss_scale = LossScale{512, 3};
    Trainer scaled(small_recipe(), options, data);

    scaled.load(plain.save());
    CHECK(scaled.save().loss_scale == LossScale{512, 3});
    plain.load({.state = plain.save().state, .loss_scale = LossScale{2, 1}});
    CHECK_FALSE(plain.save().loss_scale);
    CHECK_FALSE(plain.step().loss_scale);

    const CheckpointOrigin origin{
        .recipe = "cifar10-tutorial", .seed = 3, .records = 12, .checksum = 0, .settings = ""};
    CHECK_FALSE(to_checkpoint(plain.save(), plain.layout(), origin).metadata.contains("loss_scale"));
    const TensorFile sound = to_checkpoint(scaled.save(), scaled.layout(), origin);
    CHECK(sound.metadata.at("loss_scale") == "512");
    CHECK(sound.metadata.at("loss_scale_steps") == "3");
    using Damage = std::pair<const char*, const char*>;
    for (const Damage& damage :
         {Damage("loss_scale", "3"), Damage("loss_scale", "512x"), Damage("loss_scale", ""),
          Damage("loss_scale", "nan"), Damage("loss_scale_steps", "2000"), Damage("loss_scale_steps", "-1"),
          Damage("loss_scale_steps", "4294967297")}) {
        INFO(damage.first, " = ", damage.second);
        TensorFile damaged = sound;
        damaged.metadata[damage.first] = damage.second;
        const std::string message =
            input_error([&] { from_checkpoint(damaged, scaled.layout(), "that.safetensors"); });
        CHECK(says(message, "that.safetensors: "));
        CHECK(says(message, "loss_scale"));
    }
}

TEST_CASE("metrics have each step's loss scale, and a resumed run writes them again as they were") {
    const Dataset data = one_bright_step();
    const Recipe recipe = pixel_recipe();
    const LoopOptions loop{.steps = steps,
                           .save_every = bright_step,
                           .keep = 0,
                           .log_every = 1,
                           .origin = {"pixel", 3, data.size(), 0, "", recipe.checksum},
                           .global_batch = 2};
    for (const std::string& id : device_ids())
        for (const std::vector<std::string>& towers :
             {std::vector{id}, std::vector<std::string>{"cpu", id}}) {
            CAPTURE(id);
            CAPTURE(towers.size());
            TrainerOptions options = in_order(towers);
            options.loss_scale = LossScale{high};
            const TemporaryFolder folder;
            {
                Trainer trainer(recipe, options, data);
                RunDirectory run(folder.path(), Existing::refuse);
                Metrics metrics(run, data.size());
                train(trainer, run, loop, false, {&metrics});
            }
            const std::string whole = read_text(metrics_path_in(folder.path()));
            std::istringstream text(whole);
            std::uint64_t step = 0;
            for (std::string line; std::getline(text, line); ++step) {
                const nlohmann::json read = nlohmann::json::parse(line);
                CHECK(read.at("step") == step);
                CHECK((read.at("loss_scale") == high) == (step < bright_step));
            }
            CHECK(step == steps);
            const TensorFile last = find_checkpoint(folder.path(), steps).file;
            options.loss_scale = LossScale{};
            Trainer trainer(recipe, options, data);
            RunDirectory run(folder.path(), Existing::resume);
            resume(trainer, recipe, find_checkpoint(folder.path(), bright_step), loop.origin);
            rewind(run, trainer);
            CHECK(read_text(metrics_path_in(folder.path())).size() < whole.size());
            Metrics metrics(run, data.size());
            train(trainer, run, loop, false, {&metrics});
            CHECK(read_text(metrics_path_in(folder.path())) == whole);
            const TensorFile again = find_checkpoint(folder.path(), steps).file;
            CHECK(again.metadata == last.metadata);
            CHECK(from_checkpoint(again, trainer.layout(), "again").state ==
                  from_checkpoint(last, trainer.layout(), "last").state);
        }
}

} // namespace towers
