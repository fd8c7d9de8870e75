// Recipes on the command line: the output, and that a bad recipe creates no files.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <map>
#include <sstream>

using namespace towers::test;

namespace {

const char* const small = R"(description = "small"
[input]
shape = [16, 16, 3]
classes = 10
[network]
layers = [
  { name = "conv", kind = "conv2d", filters = 4, kernel = 3, stride = 2, activation = "relu" },
  { name = "fc", kind = "dense", units = 10 },
]
[optimizer]
kind = "momentum"
learning_rate = 0.01
[training]
batch = 4
steps = 2
)";

} // namespace

TEST_CASE("towers recipe lists, shows, describes and checks") {
    const Outcome list = run_towers({"recipe", "list"});
    check_worked(list);
    CHECK(lines_of(list.out).size() >= 12);
    CHECK(contains(list.out, "\ncifar10-tutorial   TensorFlow's CIFAR-10 tutorial"));

    const Outcome show = run_towers({"recipe", "show", "cifar10-tutorial"});
    check_worked(show);
    CHECK(show.out == read_text(source_folder() / "engine/recipes/cifar10-tutorial.toml"));

    const Outcome describe = run_towers({"recipe", "describe", "cifar10-tutorial", "--batch", "64"});
    check_worked(describe);
    CHECK(contains(describe.out, "1068298           36.9            68.4\n"));
    CHECK(contains(describe.out, "  3x3, stride 2, pad 0 1 0 1\n")); // pool1: 24x24, SAME
    CHECK(contains(describe.out, "  radius 4, bias 1, alpha 0.000111111, beta 0.75\n"));
    CHECK(contains(describe.out, "forward and backward 105.3 MFLOP an example\n"));
    CHECK(contains(describe.out, "a training step with 64 examples on one tower: "));

    const TemporaryFolder folder;
    write_text(folder / "mine.toml", small);
    const Outcome check = run_towers({"recipe", "check", "mine.toml"}, {.folder = folder.path()});
    check_worked(check);
    CHECK(check.out == "mine.toml is sound: 3 layers, 2682 parameters\n");
}

TEST_CASE("a bad recipe is refused in one line with exit code 2, and nothing is made") {
    const TemporaryFolder folder;
    std::string text = small;
    text.replace(text.find("units = 10"), 10, "units = 11");
    write_text(folder / "bad.toml", text);
    const std::string says = "bad.toml:8: the last layer: 'logits' is \"fc\"";
    for (const Arguments& command :
         std::vector<Arguments>{{"recipe", "check", "bad.toml"},
                                {"recipe", "describe", "bad.toml"},
                                {"train", "--recipe", "bad.toml", "--towers", "cpu", "--run", "run"},
                                {"bench", "--recipe", "bad.toml", "--towers", "cpu"},
                                {"parity", "--recipe", "bad.toml", "--towers", "cpu,cpu"}}) {
        CAPTURE(command[0]);
        check_failed(run_towers(command, {.folder = folder.path()}), 2, says);
        CHECK(names_in(folder.path()) == std::vector<std::string>{"bad.toml"});
    }
    check_failed(run_towers({"recipe", "check", "none.toml"}, {.folder = folder.path()}), 2, "none.toml");
    check_failed(run_towers({"recipe", "check", "cifar11"}), 2, "there is no such recipe; choose from");
    check_failed(
        run_towers({"recipe", "check", "cifar10-fast", "--set", "training.batch=48"}), 2,
        "cifar10-fast.toml with --set: [training]: 'batch' is 48, but batch norm takes groups of 32");
}

TEST_CASE("class weights and a balanced sampler come by --set, are described, kept, resumed and evaluated") {
    const TemporaryFolder folder;
    write_text(folder / "mine.toml", small);
    const RunOptions here{.folder = folder.path()};
    const Arguments set{"--set", "loss.class_weights=balanced", "--set", "training.sampler=balanced"};
    const Outcome describe = run_towers(Arguments{"recipe", "describe", "mine.toml"} + set, here);
    check_worked(describe);
    CHECK(contains(describe.out,
                   "\nthe loss of fc has class weights: balanced, examples / (classes * examples "
                   "of the class)\ntraining takes each class equally often\n"));
    check_worked(run_towers(Arguments{"recipe", "check", "mine.toml"} + set, here));
    const Arguments train{"train",  "--recipe", "mine.toml", "--towers", "cpu",
                          "--tune", "off",      "--batch",   "8"};
    const Outcome whole = run_towers(train + set + Arguments{"--steps", "4", "--run", "whole"}, here);
    check_worked(whole);
    CHECK(contains(whole.out, "class weights of fc: from 1 (circle) to 1 (checkers)\n"));
    check_worked(run_towers(train + set + Arguments{"--steps", "2", "--run", "parts"}, here));
    check_worked(run_towers({"train", "--resume", "--run", "parts", "--steps", "4", "--tune", "off"}, here));
    CHECK(RawTensors::read(folder / "whole/model.ckpt-4.safetensors").data ==
          RawTensors::read(folder / "parts/model.ckpt-4.safetensors").data);
    const std::string kept = read_text(folder / "parts/recipe.toml");
    CHECK(contains(kept, "class_weights = \"balanced\""));
    CHECK(contains(kept, "sampler = \"balanced\""));
    check_worked(run_towers({"eval", "parts", "--towers", "cpu"}, here));
    check_worked(run_towers(Arguments{"parity", "--recipe", "mine.toml", "--towers", "cpu,cpu"} + set, here));
    check_failed(
        run_towers(train + Arguments{"--set", "loss.class_weights={ cat = 1 }", "--run", "bad"}, here), 1,
        "mine.toml with --set: [[loss]]: 'class_weights' names class cat, which shapes does not have");
    CHECK(!std::filesystem::exists(folder / "bad"));
}

TEST_CASE("--set of a kind says what it removes, and the run is evaluated with the rest") {
    const TemporaryFolder folder;
    std::string text = small;
    text.replace(text.find("learning_rate"), 0, "nesterov = true\n");
    write_text(folder / "mine.toml", text);
    const RunOptions here{.folder = folder.path()};
    const std::string says =
        "towers: mine.toml with --set: [optimizer] of kind \"adam\" does not know nesterov: "
        "left out\n";
    const Arguments set{"--set", "optimizer.kind=adam", "--set", "description="};
    for (const Arguments& command :
         std::vector<Arguments>{{"recipe", "check", "mine.toml"},
                                {"train", "--recipe", "mine.toml", "--towers", "cpu", "--run", "run"}}) {
        const Outcome outcome = run_towers(command + set, here);
        CHECK(outcome.code == 0);
        CHECK(outcome.err == says);
    }
    check_worked(run_towers({"eval", "--run", "run", "--towers", "cpu"}, here));
}

TEST_CASE("recipe describe refuses a batch that train refuses, in its words") {
    const std::string says = "a global batch of 8 is no whole number of the groups of 32 examples";
    for (const Arguments& command :
         std::vector<Arguments>{{"recipe", "describe", "cifar10-fast", "--batch", "8"},
                                {"train", "--recipe", "cifar10-fast", "--batch", "8", "--towers", "cpu"}})
        check_failed(run_towers(command), 2, says);
    check_worked(run_towers({"recipe", "describe", "cifar10-fast", "--batch", "64"}));
}

TEST_CASE("recipe describe --variables lists the tensors of a checkpoint with their shapes and axes") {
    const TemporaryFolder folder;
    write_text(folder / "mine.toml", R"(description = "variables of every kind"
[input]
shape = [16, 16, 3]
classes = 10
[network]
layers = [
  { name = "conv", kind = "conv2d", filters = 8, kernel = [3, 5], stride = 2 },
  { name = "norm", kind = "batch_norm", group = 4 },
  { name = "depthwise", kind = "conv2d", kernel = 3, groups = "depthwise", multiplier = 2, bias = false },
  { name = "grouped", kind = "conv2d", filters = 4, kernel = 1, groups = 2, bias = false },
  { name = "fc", kind = "dense", units = 10 },
]
[optimizer]
kind = "adam"
learning_rate = 0.01
[averages]
decay = 0.9
[training]
batch = 4
steps = 1
)");
    const RunOptions here{.folder = folder.path()};
    const Outcome describe = run_towers({"recipe", "describe", "mine.toml", "--variables"}, here);
    check_worked(describe);
    std::map<std::string, std::string> listed; // name: shape
    for (const std::string& line : lines_of(describe.out)) {
        if (line.find('/') == std::string::npos) continue;
        std::istringstream words(line);
        std::string name, shape;
        words >> name >> shape;
        CHECK(listed.emplace(name, shape).second);
    }
    check_worked(run_towers({"train", "--recipe", "mine.toml", "--towers", "cpu", "--run", "run"}, here));
    std::map<std::string, std::string> saved;
    const RawTensors file = RawTensors::read(folder / "run/model.ckpt-1.safetensors");
    for (const auto& [name, tensor] : file.header.items()) {
        if (name == "__metadata__") continue;
        std::string shape;
        for (const auto& size : tensor["shape"]) {
            if (!shape.empty()) shape += 'x';
            shape += std::to_string(size.get<unsigned>());
        }
        saved[name] = shape;
    }
    CHECK(listed == saved);
    CHECK(listed.at("depthwise/weights") == "3x3x1x16");
    CHECK(listed.contains("norm/moving_variance/ExponentialMovingAverage"));

    const auto row = [&](const std::string& name) {
        for (const std::string& line : lines_of(describe.out))
            if (line.starts_with(name + ' ')) return line;
        return std::string();
    };
    CHECK(contains(row("conv/weights"), "height, width, in, out"));
    CHECK(contains(row("conv/weights"), "trained"));
    CHECK(contains(row("conv/weights/Adam_1"), "optimizer"));
    CHECK(contains(row("depthwise/weights"), "height, width, in of a group, out"));
    CHECK(contains(row("norm/moving_mean"), "statistic"));
    CHECK(contains(row("fc/weights"), "in, out"));
    CHECK(contains(row("fc/biases/ExponentialMovingAverage"), "average"));
}

TEST_CASE("a run is resumed and evaluated with its own copy of the recipe, even if the file has changed") {
    const TemporaryFolder folder;
    write_text(folder / "mine.toml", small);
    const RunOptions here{.folder = folder.path()};
    check_worked(run_towers({"train", "--recipe", "mine.toml", "--set", "optimizer.momentum=0.5", "--set",
                             "training.batch=6", "--towers", "cpu", "--run", "run"},
                            here));
    CHECK(contains(read_text(folder / "run/recipe.toml"), "momentum = 0.5\n"));
    CHECK(contains(read_text(folder / "run/config.toml"), "batch = 6\n"));
    std::filesystem::remove(folder / "mine.toml");
    check_worked(run_towers({"eval", "--run", "run", "--towers", "cpu"}, here));
    check_worked(run_towers({"train", "--run", "run", "--resume", "--steps", "3", "--towers", "cpu"}, here));

    write_text(folder / "mine.toml", small); // without the changes
    check_failed(run_towers({"eval", "--run", "run", "--towers", "cpu", "--recipe", "mine.toml"}, here), 1,
                 "mine.toml: is not the recipe that run/model.ckpt-3.safetensors was trained with");
    check_failed(run_towers({"train", "--run", "run", "--resume", "--steps", "4", "--set",
                             "optimizer.momentum=0.9", "--towers", "cpu"},
                            here),
                 1, "is not the recipe that");
    check_worked(
        run_towers({"eval", "--run", "run", "--towers", "cpu", "--recipe", "run/recipe.toml"}, here));
}

TEST_CASE("a recipe's file may have any name") {
    const TemporaryFolder folder;
    const std::string name = "caf\xe9 %.toml";
    write_text(folder / name, small);
    const RunOptions here{.folder = folder.path()};
    check_worked(run_towers({"train", "--recipe", name, "--towers", "cpu"}, here));
    const std::vector<std::string> runs = names_in(folder / "runs");
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].starts_with("caf\ufffd %-"));
    const std::string run = "runs/" + runs[0];
    CHECK(RawTensors::read(checkpoint(folder / run, 2)).header["__metadata__"]["recipe"] == "caf\ufffd %");
    check_worked(run_towers({"train", "--resume", "--run", run, "--steps", "3"}, here));
    check_worked(run_towers({"eval", "--run", run, "--towers", "cpu"}, here));
    check_worked(run_towers({"eval", "--run", run, "--towers", "cpu", "--recipe", name}, here));
    check_worked(run_towers({"recipe", "check", name}, here));
}
