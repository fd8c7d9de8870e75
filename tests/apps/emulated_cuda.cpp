// The program on cards that processors emulate, which fail as we ask (tests/emulated_cuda).
#include "tests/apps/helpers.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <optional>
#include <regex>

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

    /// `failure`: the calls that fail, as TOWERS_EMULATED_CUDA_FAIL says it; `cards`: -1 is no driver;
    /// `visible`: CUDA_VISIBLE_DEVICES.
    Outcome run(const Arguments& arguments, const std::string& seed, const std::string& failure = "",
                const std::string& cards = "2", const std::optional<std::string>& visible = {}) const {
        const Arguments command = towers_command(arguments);
        RunOptions options{.folder = folder.path(),
                           .environment = {{"TOWERS_EMULATED_CUDA_SEED", seed},
                                           {"TOWERS_EMULATED_CUDA_FAIL", failure},
                                           {"TOWERS_EMULATED_CUDA_DEVICES", cards}}};
        if (visible) options.environment.emplace_back("CUDA_VISIBLE_DEVICES", *visible);
        return Program(Arguments{TOWERS_ON_EMULATED_CUDA} + Arguments(command.begin() + 1, command.end()),
                       options)
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

TEST_CASE("emulated cards: --tune auto measures a little, once, and gives the same bits back") {
    if (absent()) return;
    const EmulatedCards cards;
    Environment environment;
    environment.set("XDG_CACHE_HOME", (cards.folder / "cache").c_str());
    const auto run = [&](const char* name, const Arguments& more) {
        const Outcome outcome =
            cards.run(Arguments{"train", "--recipe", cards.recipe.string(), "--batch", "16", "--log-every",
                                "1", "--run", (cards.folder / name).string()} +
                          small_data() + more,
                      "1");
        check_worked(outcome);
        for (const std::string& line : lines_of(outcome.out))
            if (line.starts_with("tuned: ")) return line;
        return std::string();
    };
    const Arguments card{"--towers", "cuda:0", "--steps", "3"}, automatic{"--tune", "auto"};
    const std::string line = run("first", card + automatic);
    CHECK(
        std::regex_match(line, std::regex("tuned: [1-9][0-9]* launch(es)? measured in [0-9.]+ s, which take "
                                          "[0-9.]+ ms a step instead of [0-9.]+(; .*)?")));
    CHECK(contains(read_text(cards.folder / "first/choices.json"), "Emulated card"));
    CHECK(run("again", card + automatic).starts_with("tuned: 0 launches measured in 0.0 s; "));
    check_same(cards.folder / "first", cards.folder / "again", 3);
    std::filesystem::remove_all(cards.folder / "cache");
    CHECK(run("given", card + Arguments{"--tune", (cards.folder / "first/choices.json").string()}).empty());
    check_same(cards.folder / "first", cards.folder / "given", 3);
    CHECK(run("off", card + Arguments{"--tune", "off"}).empty());
    CHECK_FALSE(std::filesystem::exists(cards.folder / "off/choices.json"));

    check_failed(
        cards.run(Arguments{"train", "--recipe", cards.recipe.string(), "--run",
                            (cards.folder / "failing").string()} +
                      small_data() + card + automatic,
                  "1", "cudaGraphLaunch#12=719"),
        1, "; --tune off measures nothing and runs everything by the estimate; the last checkpoint is ");

    std::filesystem::remove_all(cards.folder / "cache");
    const Outcome dropped = cards.run(
        Arguments{"train", "--recipe", cards.recipe.string(), "--towers", "cuda:1,cuda:0", "--shares", "even",
                  "--batch", "16", "--steps", "2", "--run", (cards.folder / "dropped").string()} +
            small_data() + automatic,
        "1", "cudaGraphLaunch#12=719");
    check_worked(dropped);
    CHECK(contains(dropped.out, "\ntuned: "));
    CHECK(contains(dropped.out, "tower_0 (cuda:1) failed and is dropped"));

    // Two towers on one card, with other shares than each other
    CHECK_FALSE(
        run("two", Arguments{"--towers", "cuda:0,cuda:0", "--shares", "3:1", "--steps", "2"} + automatic)
            .empty());
    std::filesystem::remove_all(cards.folder / "cache");
    CHECK(run("repeated", Arguments{"--towers", "cuda:0,cuda:0", "--shares", "3:1", "--steps", "2", "--tune",
                                    (cards.folder / "two/choices.json").string()})
              .empty());
    check_same(cards.folder / "two", cards.folder / "repeated", 2);
}

TEST_CASE("emulated cards: a card that is lost, fails or has no memory is dropped, and the others go on") {
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
        {"address", "cudaEventSynchronize#9=700", "running: an illegal memory access was encountered"},
        {"memory", "cudaEventSynchronize#9=214", "running: uncorrectable ECC error encountered"},
        // It has fallen off the bus.
        {"bus", "cudaGraph*#150+=999;cudaEventSynchronize#9+=999", ": unknown error (cudaErrorUnknown)"}};
    for (const Case& each : cases) {
        CAPTURE(each.failure);
        const Outcome outcome = cards.train("cpu,cuda:0", each.run, "1", each.failure);
        check_worked(outcome);
        CHECK(contains(outcome.out, "failed and is dropped"));
        CHECK(contains(outcome.out, each.told));
    }
    for (const auto& [name, failure, told] :
         {Case{"alone", "cudaGraphLaunch#4=719", "submitting: unspecified launch failure"},
          {"alone_memory", "cudaEventSynchronize#9=214", "running: uncorrectable ECC error encountered"},
          {"alone_bus", "cudaGraphLaunch#4+=999;cudaEventSynchronize#9+=999",
           ": unknown error (cudaErrorUnknown)"}}) {
        const Outcome outcome = cards.train("cuda:0", name, "1", failure);
        check_failed(outcome, 1, told);
        CHECK(contains(outcome.err, "model.ckpt-0.safetensors: go on from it with --resume"));
    }
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

TEST_CASE("emulated cards: a driver that was updated while it was loaded is told, and the CPU trains") {
    if (absent()) return;
    const EmulatedCards cards;
    const std::string mismatch = "cudaGetDeviceCount=803";
    const std::string told = "system has unsupported display driver / cuda driver combination "
                             "(cudaErrorSystemDriverMismatch); if the "
                             "driver was updated, restart the machine";
    check_failed(cards.train("cuda:0", "named", "1", mismatch), 2, told);
    const Outcome outcome = cards.run(Arguments{"train", "--recipe", cards.recipe.string(), "--steps", "1",
                                                "--run", (cards.folder / "chosen").string()} +
                                          small_data(),
                                      "1", mismatch);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.err, "towers: cuda: the NVIDIA driver is left out: " + told + "\n"));
    check_worked(cards.run(Arguments{"train", "--recipe", cards.recipe.string(), "--steps", "1", "--run",
                                     (cards.folder / "none").string(), "--towers", "cpu"} +
                               small_data(),
                           "1", mismatch));
}

TEST_CASE("emulated cards: CUDA_VISIBLE_DEVICES names them by number or UUID") {
    if (absent()) return;
    const EmulatedCards cards;
    using Numbers = std::vector<int>;
    const std::string uuid = "GPU-746f7765-7273-2065-6d75-6c61746564";
    const std::pair<std::string, Numbers> forms[] = {
        {"1,0", {1, 0}},
        {"1", {1}},
        {uuid + "01", {1}},
        {uuid + "01," + uuid + "00", {1, 0}},
        // The list ends where an entry is no card, and where it could be several.
        {"0,-1,1", {0}},
        {"1,7,0", {1}},
        {uuid + "01," + uuid + "07," + uuid + "00", {1}},
        {uuid.substr(0, 12), {}},
        {"0," + uuid + "01", {0}},
        {uuid + "01,0", {1}},
        {"MIG-746f7765-7273-2065-6d75-6c6174656401", {}},
        {"-1", {}},
        {"", {}},
        {"0,0", {}}, // repeated
    };
    for (const auto& [form, numbers] : forms) {
        const std::string& variable = form; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(variable);
        const Outcome outcome = cards.run({"devices", "--json"}, "1", "", "2", variable);
        check_worked(outcome);
        const nlohmann::json all = nlohmann::json::parse(outcome.out);
        Numbers shown;
        for (const nlohmann::json& device : all.at("devices"))
            if (const std::string name = device.at("name"); name.starts_with("Emulated card "))
                shown.push_back(name.back() - '0');
        CHECK(shown == numbers);
        CHECK(all.at("absent").contains("cuda") == numbers.empty());
    }
}

TEST_CASE("emulated cards: a resumed run finds its card again where CUDA_VISIBLE_DEVICES has put it") {
    if (absent()) return;
    const EmulatedCards cards;
    check_worked(cards.train("cpu,cuda:1", "whole", "1", "", "3"));
    check_worked(cards.train("cpu,cuda:1", "parts", "1", "", "2"));
    const auto resume = [&](const char* visible, const Arguments& more) {
        return cards.run(
            Arguments{"train", "--resume", "--run", (cards.folder / "parts").string(), "--steps", "3"} + more,
            "1", "", "2", visible);
    };
    check_failed(
        resume("0", {}), 2,
        "--resume: tower_1 was on cuda:1 (Emulated card 1), which is not there; this machine has cuda:0 "
        "(Emulated card 0), ");
    const Outcome outcome = resume("1", {});
    check_worked(outcome);
    CHECK(contains(outcome.out, "\nmoved: cuda:1 (Emulated card 1) is cuda:0 now\n"));
    CHECK(any_variables(checkpoint(cards.folder / "parts", 3)) ==
          any_variables(checkpoint(cards.folder / "whole", 3)));
}
