// If a card cannot run the kernels, towers must name it and what it lacks. Such a card must not hide another
// card or stop the work halfway.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;

TEST_CASE("a Vulkan device that lacks what the kernels need is left out, with the reason") {
    const std::vector<nlohmann::json> there = vulkan_devices(list_devices());
    if (there.empty()) {
        MESSAGE("SKIPPED: no Vulkan device");
        return;
    }
    const std::string name = there[0].at("name");
    const auto alike = std::size_t(std::count_if(
        there.begin(), there.end(), [&](const nlohmann::json& device) { return device.at("name") == name; }));
    const std::pair<const char*, const char*> cases[] = {
        {"apiVersion=1.2", "it offers Vulkan 1.2, but 1.3 is needed"},
        {"bufferDeviceAddress=0", "it has no bufferDeviceAddress"},
        {"timelineSemaphore=0", "it has no timelineSemaphore"},
        {"synchronization2=0", "it has no synchronization2"},
        {"maintenance4=0", "it has no maintenance4"},
        {"queueFlags=5", "it has no compute queue"},
        {"supportedStages=0", "it has no subgroups in compute shaders"},
        {"supportedOperations=1", "it has no subgroup arithmetic in compute shaders"},
        {"computeFullSubgroups=0", "it has no computeFullSubgroups"},
        {"maxComputeWorkGroupInvocations=128",
         "its maxComputeWorkGroupInvocations is 128, but 256 is needed"},
        {"maxComputeWorkGroupSize[0]=128", "its maxComputeWorkGroupSize[0] is 128, but 256 is needed"},
        {"maxComputeSharedMemorySize=8192", "its maxComputeSharedMemorySize is 8192, but 12352 is needed"},
        {"maxPushConstantsSize=64", "its maxPushConstantsSize is 64, but 128 is needed"}};
    const TemporaryFolder folder;
    const auto of_first = [&](const std::string& rule) {
        std::string whose = rule;
        return broken_vulkan(whose.insert(rule.find('='), "@" + name), folder.path());
    };
    for (const auto& [lacking, reason] : cases) {
        const char* const ability = lacking; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(ability);
        const nlohmann::json all = list_devices(of_first(ability));
        CHECK(vulkan_devices(all).size() + alike == there.size());
        REQUIRE(all.at("left_out").size() == alike);
        CHECK(all.at("left_out")[0].at("backend") == "vulkan");
        CHECK(all.at("left_out")[0].at("name") == name);
        CHECK(contains(all.at("left_out")[0].at("reason").get<std::string>(), reason));
    }
    const std::string line = "vulkan     left out: " + name + ": it has no maintenance4\n";
    CHECK(contains(run_towers({"devices"}, of_first("maintenance4=0")).out, line));

    // All of them are weak: then Vulkan is absent, and asking for it gives the reason.
    const RunOptions all_weak = broken_vulkan("maintenance4=0", folder.path());
    const nlohmann::json all = list_devices(all_weak);
    CHECK(vulkan_devices(all).empty());
    CHECK(all.at("left_out").size() == there.size());
    CHECK_FALSE(all.at("absent").at("vulkan").get<std::string>().empty());
    const std::string reason = name + " is left out: it has no maintenance4";
    check_failed(run_towers({"train", "--towers", "vulkan:0"}, all_weak), 2, reason);
    check_failed(run_towers({"train", "--backend", "vulkan"}, all_weak), 2, reason);
}

TEST_CASE("where an allocation may be small, a step takes several, and its results are the same") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    const TemporaryFolder folder;
    write_records(folder / "data", 10);
    write_text(folder / "tiny.toml", tiny_recipe("4", "kind = \"momentum\"\nlearning_rate = 0.01"));
    const auto train = [&](const std::string& towers, const std::string& run, const std::string& limit) {
        const Outcome outcome =
            run_towers({"train", "--data", "data", "--recipe", "tiny.toml", "--towers", towers, "--steps",
                        "3", "--batch", "64", "--shares", "even", "--log-every", "1", "--run", run},
                       broken_vulkan(limit, folder.path()));
        check_worked(outcome);
        CHECK_FALSE(contains(outcome.out, "micro-batches"));
    };
    for (const std::string& towers : {id, id + ",cpu"}) {
        CAPTURE(towers);
        train(towers, "whole-" + towers, "");
        // The pictures of a share have 196608 bytes.
        train(towers, "pieces-" + towers, "maxMemoryAllocationSize=200000");
        check_same(folder / ("whole-" + towers), folder / ("pieces-" + towers), 3);
    }
}

TEST_CASE("a batch over the driver's buffer limit is done in micro-batches, and the limit is named") {
    const TemporaryFolder folder;
    const auto train = [&](const std::string& device, const std::string& limit) {
        return run_towers({"train", "--data", "shapes", "--towers", device, "--steps", "0", "--batch", "400"},
                          broken_vulkan(limit, folder.path()));
    };
    for (const nlohmann::json& each : vulkan_devices(list_devices())) {
        const std::string id = each.at("id"), name = each.at("name");
        CAPTURE(name);
        for (const std::string limit : {"maxBufferSize", "maxMemoryAllocationSize"}) {
            const std::string exceeds = "exceeds the driver's " + limit + " of ";
            const Outcome split = train(id, limit + "=40000000"); // the data set has 30720000 bytes
            check_worked(split);
            CHECK(contains(split.out, "400 examples a step in 2 micro-batches of up to 200 examples, "
                                      "because all at once need "));
            CHECK(contains(split.out, " MiB in one piece and 38.1 MiB can be had\n"));
            check_failed(train(id, limit + "=1000000"), 1, exceeds + "1000000; try a smaller --batch");
        }
    }
}

TEST_CASE("training uses the largest heap, which devices promises, in any order, and asks how much is free") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    const TemporaryFolder folder;
    // The data set has 29.3 MiB, and a step of 400 examples takes 160 MiB at once.
    for (const std::string rule :
         {"heaps=16M local,1G local,1G;types=0 local visible,1 local,2 visible cached",
          "heaps=1G,1G local,16M local;types=2 local,0 visible,1 local,2 local visible,0 visible cached",
          "heaps=16M local,1G local,16M;types=0 local,1 local visible,1 local visible cached,2 visible"}) {
        CAPTURE(rule);
        const RunOptions options = broken_vulkan(rule, folder.path());
        for (const nlohmann::json& device : vulkan_devices(list_devices(options)))
            CHECK(device.at("memory") == 1u << 30);
        const Outcome whole = run_towers(
            {"train", "--data", "shapes", "--towers", id, "--steps", "0", "--batch", "400"}, options);
        check_worked(whole);
        CHECK_FALSE(contains(whole.out, "micro-batches"));
    }
    // In the second case the largest heap is not for buffers.
    for (const std::string rule :
         {"heaps=16M local,160M local,1G;types=0 local visible,1 local,2 visible cached",
          "heaps=1G local,160M local,1G;types=0 local,1 local,2 visible cached;memoryTypeBits=6"}) {
        CAPTURE(rule);
        const Outcome little =
            run_towers({"train", "--data", "shapes", "--towers", id, "--steps", "0", "--batch", "400"},
                       broken_vulkan(rule, folder.path()));
        check_worked(little);
        CHECK(contains(little.out, "because all at once need "));
        CHECK(contains(little.out, " MiB of memory and 144.0 MiB can be had\n"));
    }
}

TEST_CASE("bench leaves out a device that refuses memory, says so and measures the others") {
    const std::string id = quick_device();
    if (id.empty()) return;
    const TemporaryFolder folder;
    const RunOptions options = broken_vulkan("maxBufferSize=40000000", folder.path());
    const Outcome outcome = run_towers({"bench", "--towers", "cpu,cpu," + id, "--batch", "2", "--repetitions",
                                        "1", "--steps", "1", "--warm-up", "1", "--together", "--subsets",
                                        "--shares", "1:3:2", "--json", "report.json"},
                                       options);
    check_failed(outcome, 1, "could not measure " + id + "; the report says why");
    CHECK(contains(outcome.out, id + "   left out: " + id + " ("));
    CHECK(contains(outcome.out, "exceeds the driver's maxBufferSize of 40000000\n"));
    CHECK(contains(outcome.out, "cpu,cpu with 1:3 examples: "));
    CHECK(contains(outcome.out, "Fastest: cpu"));
    const nlohmann::json report = nlohmann::json::parse(read_text(folder / "report.json"));
    CHECK(report.at("devices").size() == 1);
    CHECK(report.at("together").at("shares") == nlohmann::json({1, 3}));
    REQUIRE(report.at("left_out").size() == 1);
    CHECK(report.at("left_out")[0].at("what") == id);

    // Without a second tower there is nothing to do together.
    const Outcome one = run_towers({"bench", "--towers", "cpu," + id, "--batch", "2", "--repetitions", "1",
                                    "--steps", "1", "--warm-up", "1", "--together"},
                                   options);
    check_failed(one, 1, "could not measure " + id + ", together; the report says why");
    CHECK(contains(one.out, "together   left out: a single tower is left\n"));
    check_failed(run_towers({"bench", "--towers", id, "--batch", "2"}, options), 1,
                 "maxBufferSize of 40000000; try a smaller --batch");
}

TEST_CASE("for want of memory, a command without --batch does not advise one") {
    const std::string id = quick_device();
    if (id.empty()) return;
    const TemporaryFolder folder;
    const std::filesystem::path run = folder / "run";
    check_failed(run_towers({"train", "--towers", "cpu", "--steps", "5", "--batch", "2", "--lr", "1e30",
                             "--run", run.string()}),
                 1, "Model diverged");
    const Outcome outcome = run_towers({"replay", (run / "diverged-1.safetensors").string(), "--towers", id},
                                       broken_vulkan("maxBufferSize=1000000", folder.path()));
    check_failed(outcome, 1,
                 "exceeds the driver's maxBufferSize of 1000000; choose other devices with --towers");
}

TEST_SUITE("timed") {
    TEST_CASE("when the only device hangs, the run ends with one line that names the last checkpoint") {
        const std::string id = quick_device();
        if (!id.starts_with("vulkan:")) return;
        const TemporaryFolder folder;
        const std::filesystem::path run = folder / "run", hang = folder / "hang",
                                    trace = folder / "trace.json";
        write_text(folder / "tiny.toml", tiny_recipe("4", "kind = \"sgd\"\nlearning_rate = 0.1\n"));
        Program program(
            towers_command({"train", "--recipe", (folder / "tiny.toml").string(), "--towers", id, "--batch",
                            "4", "--log-every", "1", "--save-every", "1000000", "--steps", "1000000",
                            "--device-timeout", "3", "--run", run.string(), "--trace", trace.string()}),
            broken_vulkan("vkWaitSemaphores?" + hang.string() + "=hang", folder.path()));
        const bool works = program.wait_for_lines(": step ", 5);
        write_text(hang, "");
        const Outcome outcome = program.end();
        CAPTURE(outcome.err);
        REQUIRE(works);
        check_failed(outcome, 1, id + ": no answer from vkWaitSemaphores for ");
        CHECK(contains(outcome.err, " s more than a step should take; the last checkpoint is " +
                                        checkpoint(run, 0).string() + ": go on from it with --resume"));
        CHECK_FALSE(nlohmann::json::parse(read_text(trace)).empty());
        check_worked(run_towers({"train", "--run", run.string(), "--resume", "--steps", "1"}));
    }
}

TEST_CASE("Vulkan does not take a card of NVIDIA's that CUDA_VISIBLE_DEVICES hides, unless it is named") {
    const std::vector<nlohmann::json> there = vulkan_devices(list_devices());
    if (there.empty()) {
        MESSAGE("SKIPPED: no Vulkan device");
        return;
    }
    const TemporaryFolder folder;
    const RunOptions options = broken_vulkan("vendorID=0x10DE;deviceType=discrete", folder.path());
    const auto run = [&](const std::string& variable, const Arguments& flags) {
        return Program(Arguments{"env", variable == "not set" ? "-uCUDA_VISIBLE_DEVICES"
                                                              : "CUDA_VISIBLE_DEVICES=" + variable} +
                           towers_command(flags),
                       options)
            .end();
    };
    write_text(folder / "tiny.toml", tiny_recipe("4", "kind = \"sgd\"\nlearning_rate = 0.1\n"));
    const Arguments train{"train",  "--recipe", (folder / "tiny.toml").string(),
                          "--data", "shapes",   "--steps",
                          "0",      "--batch",  "4"};
    const std::string withheld = "CUDA_VISIBLE_DEVICES is set, and CUDA does not show this card";
    const std::string id = there[0].at("id"), name = there[0].at("name");
    for (const std::string variable : {"", "7"}) {
        CAPTURE(variable);
        const Outcome listed = run(variable, {"devices"});
        check_worked(listed);
        CHECK(contains(listed.out, "; only taken when named: " + withheld + "\n"));
        const Outcome chosen = run(variable, train);
        CHECK(chosen.code == 0);
        CHECK_FALSE(contains(chosen.out, ": vulkan:"));
        CHECK(contains(chosen.err, "towers: " + id + " (" + name + ")"));
        CHECK(contains(chosen.err, " is only taken when --towers names it: " + withheld + "\n"));
        check_failed(run(variable, train + Arguments{"--backend", "vulkan"}), 2,
                     " is only taken when --towers names it: " + withheld);
        const Outcome named = run(variable, train + Arguments{"--towers", id});
        check_worked(named);
        CHECK(named.out.starts_with("tower_0: " + id));
    }
    if (!list_devices().at("absent").contains("cuda")) return; // else CUDA's cards are meant
    const Outcome chosen = run("not set", train);
    check_worked(chosen);
    CHECK(chosen.out.starts_with("tower_0: " + id));
}
