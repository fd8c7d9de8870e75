// Fine-tuning at the command line: --init with other classes, and --freeze.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("a run starts from another's variables, and resumes with more or fewer frozen ones") {
    const TemporaryFolder folder;
    const fs::path recipe = folder / "tiny.toml", first = folder / "first", tuned = folder / "tuned";
    std::string text = tiny_recipe("2", "kind = \"momentum\"\nlearning_rate = 0.1\n");
    text.replace(text.find("units = 10"), 10, "units = \"$classes\"");
    write_text(recipe, text);
    const Arguments of_recipe{"--recipe", recipe.string()};
    train_small(first, of_recipe + Arguments{"--steps", "2"});

    const std::string out = train_small(
        tuned, of_recipe + Arguments{"--set", "input.classes=12", "--init", first.string(), "--freeze",
                                     "conv/*", "--freeze", "bn/*", "--towers", "cpu,cpu", "--steps", "2"});
    CHECK(contains(out, "layer 'fc' begins anew, because " + checkpoint(first, 2).string() +
                            " is of another number of classes: fc/weights ["));
    CHECK(contains(out, "fc/biases [10] there, [12] here"));
    CHECK(contains(out, "6 of 8 variables are frozen"));
    const RawTensors before = RawTensors::read(checkpoint(first, 2)),
                     after = RawTensors::read(checkpoint(tuned, 2));
    for (const char* const name :
         {"conv/weights", "conv/biases", "bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"}) {
        CAPTURE(name);
        CHECK(after.values(name) == before.values(name));
        CHECK(after.values(std::string(name) + "/ExponentialMovingAverage") == before.values(name));
    }
    CHECK_FALSE(after.header.contains("conv/weights/Momentum"));
    CHECK(contains(read_text(tuned / "config.toml"), "freeze = [ 'conv/*', 'bn/*' ]"));
    check_worked(run_towers({"eval", "--run", tuned.string(), "--towers", "cpu"}));

    const auto resume = [&](const Arguments& flags) {
        const Outcome outcome = run_towers(Arguments{"train", "--resume", "--run", tuned.string()} + flags);
        check_worked(outcome);
        return outcome.out;
    };
    CHECK(contains(resume({"--steps", "3"}), "6 of 8 variables are frozen"));
    CHECK(contains(resume({"--steps", "4", "--freeze", "none"}),
                   "changed: freeze from [ 'conv/*', 'bn/*' ] to none"));
    CHECK(RawTensors::read(checkpoint(tuned, 4)).values("conv/weights") != before.values("conv/weights"));
    CHECK(contains(resume({"--steps", "5", "--freeze", "conv/*"}), "2 of 8 variables are frozen"));

    check_failed(run_towers(Arguments{"train", "--towers", "cpu", "--run", (folder / "none").string(),
                                      "--freeze", "conv"} +
                            of_recipe),
                 2, "--freeze 'conv': fits no variable; give 'conv/*'");
    CHECK_FALSE(fs::exists(folder / "none"));
}
