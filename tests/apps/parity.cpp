// Users who suspect a driver must learn which kernel it gets wrong, or that it gets none wrong.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace towers::test;

namespace {

/// Runs `towers parity` of a program in which one Vulkan kernel is wrong.
Outcome run_broken(const std::string& kernel, const Arguments& flags) {
    return Program(Arguments{TOWERS_BROKEN_PROGRAMS + kernel, "parity"} + flags).end();
}

const Arguments quick{"--batch", "4", "--steps", "0"};

} // namespace

TEST_CASE("a device agrees with itself to the bit") {
    const TemporaryFolder folder;
    const Outcome outcome =
        run_towers({"parity", "--towers", "cpu,cpu", "--batch", "4", "--steps", "2", "--json", "p.json"},
                   {.folder = folder.path()});
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(outcome.out);
    CHECK(lines.back().starts_with("clean: "));
    for (const char* operation : {"conv1 forward ", "pool1 forward ", "norm2 backward ",
                                  "local3/weights decay ", "conv2 data gradient ", "update "}) {
        CAPTURE(operation);
        CHECK(std::ranges::any_of(lines, [&](const auto& line) { return line.starts_with(operation); }));
    }
    const nlohmann::json all = nlohmann::json::parse(read_text(folder / "p.json"));
    CHECK(all.at("devices").size() == 2);
    CHECK(all.at("first_difference").is_null());
    CHECK(all.at("tensors").size() > 40);
    for (const nlohmann::json& tensor : all.at("tensors")) {
        CHECK(tensor.at("same") == true);
        CHECK(tensor.at("relative_norm") == 0);
    }
    CHECK(all.at("drift").at("steps").size() == 2);
    CHECK(all.at("drift").at("steps").at(1).at("relative_parameters") == 0);
}

TEST_CASE("NaN on both devices fails with one line, unless numbers have overflowed before") {
    // Each dense layer of 100 units multiplies its input by about 1e7, until infinities of either sign meet
    // in a sum. One unit has but one product, so that it becomes infinite first.
    const TemporaryFolder folder;
    const auto network = [](int layers, int units) {
        std::string text = "[input]\nshape = [8, 8, 3]\nclasses = 10\n[defaults.dense]\nstddev = 1e6\n"
                           "[network]\nlayers = [\n";
        for (int i = 0; i < layers; ++i)
            text += fmt::format("  {{ kind = \"dense\", units = {} }},\n", units);
        return text + "  { kind = \"dense\", units = 10 },\n]\n[optimizer]\nkind = \"sgd\"\n"
                      "learning_rate = 0.1\n[training]\nbatch = 4\nsteps = 1\n";
    };
    const Arguments parity = Arguments{"parity", "--towers", "cpu,cpu", "--recipe", "large.toml"} + quick;
    const RunOptions here{.folder = folder.path()};
    write_text(folder / "large.toml", network(7, 100));
    const Outcome outcome = run_towers(parity + Arguments{"--json", "p.json"}, here);
    check_failed(outcome, 1,
                 "cpu and cpu agree, but on NaN from finite numbers (too large for float32, or a fault of "
                 "the kernel)");
    CHECK(contains(outcome.err,
                   "numbers are NaN on both devices, though all that the operation reads is finite"));
    CHECK(contains(outcome.out, "  NaN FROM FINITE NUMBERS\n"));
    const nlohmann::json all = nlohmann::json::parse(read_text(folder / "p.json"));
    bool unexplained = false;
    for (const nlohmann::json& tensor : all.at("tensors"))
        unexplained = unexplained || tensor.at("unexplained").get<bool>();
    CHECK(unexplained);

    write_text(folder / "large.toml", network(12, 1));
    const Outcome overflow = run_towers(parity, here);
    check_worked(overflow);
    CHECK(contains(overflow.out, "  NaN\n"));
    CHECK(
        lines_of(overflow.out).back().find(" of them hold NaN on both devices, from numbers that overflow") !=
        std::string::npos);
}

TEST_CASE("parity takes whole groups of a recipe's batch norm, by itself or with one line") {
    const Arguments parity{"parity",
                           "--towers",
                           "cpu,cpu",
                           "--steps",
                           "0",
                           "--recipe",
                           "cifar10-resnet20",
                           "--set",
                           "defaults.batch_norm.group=3",
                           "--set",
                           "training.batch=3"};
    const Outcome outcome = run_towers(parity);
    check_worked(outcome);
    CHECK(contains(outcome.out, "one step of cifar10-resnet20 in lockstep, 33 examples"));
    check_failed(run_towers(parity + Arguments{"--batch", "4"}), 2, "groups of 3 examples");
}

TEST_CASE("the CPU and Vulkan agree") {
    if (quick_device().empty()) return;
    const Outcome outcome =
        run_towers({"parity", "--towers", "cpu," + quick_device(), "--batch", "4", "--steps", "1"});
    check_worked(outcome);
    CHECK(lines_of(outcome.out).back().starts_with("clean: "));
}

TEST_CASE("a tolerance of zero allows no rounding") {
    if (quick_device().empty()) return;
    check_failed(
        run_towers(Arguments{"parity", "--towers", "cpu," + quick_device(), "--tolerance", "0"} + quick), 1,
        "tensors, first in ");
}

TEST_CASE("parity names the first kernel that a device gets wrong, and no other") {
    if (quick_device().empty()) return;
    const TemporaryFolder folder;
    const std::string json = (folder / "p.json").string();
    const Arguments flags =
        Arguments{"--towers", "cpu," + quick_device(), "--validate", "--json", json} + quick;
    struct Broken {
        std::string kernel, first, tensor, second;
    };
    for (const Broken& broken :
         {Broken{"lrn_backward", "norm2 backward", "d conv2", "norm1 backward"},
          Broken{"max_pool_forward", "pool1 forward", "pool1 argmax", "pool2 forward"}}) {
        const Outcome outcome = run_broken(broken.kernel, flags);
        check_failed(outcome, 1,
                     "first in " + broken.first + ", kernel " + broken.kernel + ", tensor '" + broken.tensor);
        CHECK(contains(outcome.err, "tolerance") == (broken.kernel == "lrn_backward"));
        CHECK(contains(outcome.err, " on " + quick_device()));
        const nlohmann::json all = nlohmann::json::parse(read_text(json));
        std::vector<std::string> differing;
        for (const nlohmann::json& tensor : all.at("tensors"))
            if (!tensor.at("same")) differing.push_back(tensor.at("operation"));
        CHECK(differing == std::vector{broken.first, broken.second});
        CHECK(all.at("tensors").at(all.at("first_difference").get<std::size_t>()).at("tensor") ==
              broken.tensor);
    }
    // Sums that rounding changes are compared with a tolerance, and one missing pixel in 32 exceeds it.
    const TemporaryFolder recipes;
    write_text(recipes / "colourful.toml", colourful_recipe);
    const Outcome sums =
        run_broken("grey_sums", flags + Arguments{"--recipe", (recipes / "colourful.toml").string()});
    check_failed(sums, 1, "first in grey sums, kernel grey_sums, tensor 'grey sums': relative norm");
    CHECK(contains(sums.err, " differ in 1 of "));
    // Without Vulkan, the same program has no fault.
    const Outcome cpu = run_broken("lrn_backward", Arguments{"--towers", "cpu,cpu"} + quick);
    check_worked(cpu);
}

TEST_CASE("a report that cannot be written is an error before the work starts") {
    const TemporaryFolder folder;
    const Outcome outcome =
        run_towers({"parity", "--towers", "cpu,cpu", "--json", "none/p.json"}, {.folder = folder.path()});
    check_failed(outcome, 1, "none");
    CHECK(outcome.out == "");
}
