// train --summary-every: summaries for TensorBoard in the run directory.
#include "tests/support/events.h"
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The steps that have a summary in a file.
std::vector<std::int64_t> summarized(const fs::path& file) {
    std::vector<std::int64_t> steps;
    for (const ReadEvent& event : read_events(file))
        if (event.scalars.contains("total_loss")) steps.push_back(event.step);
    return steps;
}

} // namespace

TEST_CASE("train writes TensorBoard's summaries by default, and only as many as it is told") {
    const TemporaryFolder folder;
    train_small(folder / "run", {"--steps", "3", "--batch", "2"});
    REQUIRE(event_files(folder / "run").size() == 1);
    const auto events = read_events(event_files(folder / "run")[0]);
    REQUIRE(events.size() == 3);
    for (const char* tag :
         {"total_loss (raw)", "total_loss", "cross_entropy", "local3/weight_loss (raw)", "local4/weight_loss",
          "learning_rate", "conv1/sparsity", "softmax_linear/sparsity"})
        CHECK_MESSAGE(events[2].scalars.contains(tag), tag);
    for (const char* tag : {"conv1/weights", "conv1/weights/gradients", "local4/biases", "conv2/activations",
                            "softmax_linear/activations"})
        CHECK_MESSAGE(events[2].histograms.contains(tag), tag);
    CHECK(events[2].histograms.at("local3/weights").count == 2304 * 384);

    train_small(folder / "none", {"--steps", "3", "--batch", "2", "--summary-every", "0"});
    CHECK(event_files(folder / "none").empty());
    check_same(folder / "none", folder / "run", 3);

    train_small(folder / "often",
                {"--steps", "5", "--batch", "2", "--summary-every", "2", "--save-every", "1"});
    CHECK(summarized(event_files(folder / "often").at(0)) == std::vector<std::int64_t>{0, 2, 4});
    CHECK(contains(read_text(folder / "often/config.toml"), "summary-every = 2\n"));
    train_small(folder / "often", {"--resume-from", "3", "--steps", "7"});
    const auto files = event_files(folder / "often");
    REQUIRE(files.size() == 2);
    CHECK(read_events(files[1]).at(1).step == 3);
    CHECK(summarized(files[1]) == std::vector<std::int64_t>{4, 6});
}

TEST_CASE("summaries of several towers do without frozen variables that evaluation does not use") {
    const TemporaryFolder folder;
    const fs::path recipe = folder / "heads.toml";
    write_text(recipe, R"(description = "an auxiliary head"
[input]
shape = [8, 8, 3]
classes = 10
[network]
layers = [
  { name = "conv", kind = "conv2d", filters = 4, kernel = 3 },
  { name = "fc", kind = "dense", units = 10 },
  { name = "auxiliary", kind = "dense", units = 10, input = "conv" },
]
[[loss]]
logits = "fc"
[[loss]]
logits = "auxiliary"
weight = 0.4
[optimizer]
kind = "sgd"
learning_rate = 0.01
[training]
batch = 4
steps = 2
)");
    const fs::path run = folder / "run";
    check_worked(run_towers({"train", "--recipe", recipe.string(), "--data", "shapes", "--towers", "cpu,cpu",
                             "--freeze", "auxiliary/*", "--summary-every", "1", "--run", run.string()}));
    CHECK(summarized(event_files(run).at(0)) == std::vector<std::int64_t>{0, 1});
    CHECK(read_events(event_files(run)[0]).at(2).histograms.contains("fc/activations"));
}

TEST_CASE("a run that cannot write summaries says so once and trains on") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "1", "--batch", "2", "--summary-every", "0"});
    // Larger than the settings and the recipe, smaller than a summary
    const Outcome outcome = run_towers({"train", "--resume", "--run", run.string(), "--steps", "3",
                                        "--save-every", "0", "--summary-every", "1", "--tune", "off"},
                                       {.largest_file = 16 << 10});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1); // the last checkpoint does not fit either
    const std::vector<std::string> lines = lines_of(outcome.err);
    REQUIRE(lines.size() == 2);
    CHECK(contains(lines[0], "/events.out.tfevents."));
    CHECK(lines[0].ends_with("; training goes on and tries again at the next save"));
    CHECK(contains(outcome.out, "step 2, loss"));
}
