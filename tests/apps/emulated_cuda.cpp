// The program on cards that processors emulate, which fail as we ask (tests/emulated_cuda).
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;

namespace {

struct EmulatedCards {
    TemporaryFolder folder;
    std::filesystem::path recipe = folder / "tiny.toml";

    EmulatedCards() {
        std::string text = tiny_recipe("4", "kind = \"momentum\"\nlearning_rate = 0.01");
        // A bias before a batch norm has no gradient but rounding, which parity would compare.
        const std::string convolution = "kernel = 3";
        text.replace(text.find(convolution), convolution.size(), convolution + ", bias = false");
        write_text(recipe, text);
    }

    /// `failure`: the calls that fail, as TOWERS_EMULATED_CUDA_FAIL says it; `cards`: -1 is no driver.
    Outcome run(const Arguments& arguments, const std::string& seed, const std::string& failure = "",
                const std::string& cards = "2") const {
        const Arguments command = towers_command(arguments);
        return Program(Arguments{TOWERS_ON_EMULATED_CUDA} + Arguments(command.begin() + 1, command.end()),
                       {.folder = folder.path(),
                        .environment = {{"TOWERS_EMULATED_CUDA_SEED", seed},
                                        {"TOWERS_EMULATED_CUDA_FAIL", failure},
                                        {"TOWERS_EMULATED_CUDA_DEVICES", cards}}})
            .end();
    }

    Outcome train(const std::string& towers, const std::string& run_name, const std::string& seed,
                  const std::string& failure = "", const std::string& steps = "4",
                  const std::string& batch = "16") const {
        return run(Arguments{"train", "--recipe", recipe.string(), "--towers", towers, "--batch", batch,
                             "--shares", "even", "--seed", "7", "--log-every", "1", "--steps", steps, "--run",
                             (folder / run_name).string()} +
                       small_data(),
                   seed, failure);
    }
};

bool absent() {
    if (*TOWERS_ON_EMULATED_CUDA != '\0') return false;
    MESSAGE("SKIPPED: built without TOWERS_EMULATED_CUDA");
    return true;
}

} // namespace

TEST_CASE("emulated cards: parity with the CPU in every order of work, and between two cards") {
    if (absent()) return;
    const EmulatedCards cards;
    for (const char* const seed : {"1", "2"})
        check_worked(cards.run(
            {"parity", "--towers", "cpu,cuda:0", "--recipe", cards.recipe, "--batch", "8", "--steps", "2"},
            seed));
    check_worked(cards.run(
        {"parity", "--towers", "cuda:1,cuda:0", "--recipe", cards.recipe, "--batch", "8", "--steps", "2"},
        "3"));
}

TEST_CASE("emulated cards: parity with the CPU where an image's contrast changes, though cards fuse sums") {
    if (absent()) return;
    const EmulatedCards cards;
    write_text(cards.recipe, colourful_recipe);
    const Outcome outcome = cards.run(
        {"parity", "--towers", "cpu,cuda:0", "--recipe", cards.recipe, "--batch", "32", "--steps", "0"}, "1");
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(outcome.out);
    const auto sums =
        std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("grey sums "); });
    REQUIRE(sums != lines.end());
    CHECK_FALSE(sums->ends_with(" 0")); // rounded in another way; else this test would show nothing
}

TEST_CASE("emulated cards: a run that a processor, a card and Vulkan share trains what one tower trains") {
    if (absent()) return;
    const EmulatedCards cards;
    const std::string vulkan = quick_device().starts_with("vulkan:") ? "," + quick_device() : "";
    const std::string third = vulkan.empty() ? ",cuda:1" : vulkan;
    check_worked(cards.train("cpu", "one", "1", "", "4", "48"));
    check_worked(cards.train("cpu,cuda:0" + third, "mixed", "2"));
    CHECK(relative_distance(any_variables(checkpoint(cards.folder / "mixed", 4)),
                            any_variables(checkpoint(cards.folder / "one", 4))) < 1e-4);
}

TEST_CASE("emulated cards: a card that is lost, fails or has no memory is let go, and the others go on") {
    if (absent()) return;
    const EmulatedCards cards;
    struct Case {
        const char *run, *failure, *told;
    };
    const Case cases[] = {
        {"timeout", "cudaEventSynchronize#9=702",
         "was terminated (cudaErrorLaunchTimeout); if it is lost again, try"},
        {"launch", "cudaGraphLaunch#9=719",
         "submitting: unspecified launch failure (cudaErrorLaunchFailure)"},
        {"address", "cudaEventSynchronize#9=700", "running: an illegal memory access was encountered"}};
    for (const Case& each : cases) {
        CAPTURE(each.failure);
        const Outcome outcome = cards.train("cpu,cuda:0", each.run, "1", each.failure);
        check_worked(outcome);
        CHECK(contains(outcome.out, "failed and is let go"));
        CHECK(contains(outcome.out, each.told));
    }
    check_failed(cards.train("cuda:0", "alone", "1", "cudaGraphLaunch#4=719"), 1,
                 "unspecified launch failure");
}

TEST_CASE("emulated cards: a card without enough memory computes fewer examples at once") {
    if (absent()) return;
    const EmulatedCards cards;
    const Outcome outcome = cards.train("cuda:0", "micro", "1", "cudaMalloc#1=2", "1");
    check_worked(outcome);
    CHECK(contains(outcome.out, "16 examples a step in 2 micro-batches of up to 8 examples"));
}

TEST_CASE("emulated cards: a card that cannot start is refused in one line") {
    if (absent()) return;
    const EmulatedCards cards;
    check_failed(cards.train("cuda:0", "b", "1", "cudaStreamCreateWithFlags#1=2", "1"), 1,
                 "cuda:0 (Emulated card 0): opening the device: out of memory");
    check_failed(cards.train("cuda:0", "c", "1", "cudaGraphInstantiate#1=719", "1"), 1,
                 "recording: unspecified launch failure");
    check_failed(cards.train("cuda:0", "d", "1", "cudaGetDeviceCount#1=35", "1"), 2,
                 "update the driver, or build with the CUDA Toolkit");
    const Arguments train =
        Arguments{"train", "--towers", "cuda:0", "--run", (cards.folder / "e").string()} + small_data();
    check_failed(cards.run(train, "1", "", "-1"), 2, "no NVIDIA driver is installed");
    check_failed(cards.run(train, "1", "", "0"), 2, "the NVIDIA driver shows no GPU");
}
