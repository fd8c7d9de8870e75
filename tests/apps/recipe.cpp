// Recipes at the command line: what a user reads, and that a bad one makes nothing.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

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

TEST_CASE("a run goes on and is evaluated with its own recipe, whatever became of the file") {
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
