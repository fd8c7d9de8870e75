// Users who have lost a driver must see that, and must still be able to train.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;

TEST_CASE("the list of devices has the CPU") {
    const Outcome outcome = run_towers({"devices"});
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(outcome.out);
    CHECK(std::any_of(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("cpu "); }));
}

TEST_CASE("scripts can read the list of devices") {
    const Outcome outcome = run_towers({"devices", "--json"});
    check_worked(outcome);
    const nlohmann::json all = nlohmann::json::parse(outcome.out);
    const std::vector<std::string> text = lines_of(run_towers({"devices"}).out);
    std::vector<std::string> ids;
    for (const nlohmann::json& device : all.at("devices")) {
        ids.push_back(device.at("id"));
        for (const char* key : {"name", "vendor", "driver", "kind"}) {
            CAPTURE(key);
            CHECK_FALSE(device.at(key).get<std::string>().empty());
        }
        const std::string uuid = device.at("uuid");
        CHECK(uuid.size() == 32);
        CHECK(uuid.find_first_not_of("0123456789abcdef") == std::string::npos);
        CHECK(device.at("memory").get<std::uint64_t>() > 0);
        std::string units;
        for (const std::string each : device.at("units"))
            units += (units.empty() ? "; units for " : ", ") + each;
        CHECK(std::ranges::any_of(text, [&](const std::string& line) {
            return line.starts_with(ids.back() + " ") && contains(line, units) &&
                   contains(line, "; units for ") == !units.empty();
        }));
        const bool turns = device.at("queues") == 1 && ids.back() != "cpu";
        CHECK(turns == std::ranges::any_of(text, [&](const std::string& line) {
                  return line.starts_with(ids.back() + " ") &&
                         contains(line, "; one queue: kernels and copies take turns");
              }));
    }
    CHECK(std::count(ids.begin(), ids.end(), "cpu") == 1);
    std::sort(ids.begin(), ids.end());
    CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
    CHECK(all.at("absent").is_object());
}

TEST_CASE("without a Vulkan driver Vulkan is absent and the CPU trains") {
    const TemporaryFolder folder;
    const RunOptions no_driver{.folder = folder.path(),
                               .environment = {{"VK_DRIVER_FILES", "/nonexistent"},
                                               {"VK_ICD_FILENAMES", "/nonexistent"},
                                               {"VK_ADD_DRIVER_FILES", ""}}};
    const Outcome text = run_towers({"devices"}, no_driver);
    check_worked(text);
    bool absent = false;
    for (const std::string& line : lines_of(text.out))
        absent = absent || (line.starts_with("vulkan ") && contains(line, "absent: ") && line.size() > 25);
    CHECK(absent);

    const nlohmann::json all = nlohmann::json::parse(run_towers({"devices", "--json"}, no_driver).out);
    CHECK_FALSE(all.at("absent").at("vulkan").get<std::string>().empty());
    for (const nlohmann::json& device : all.at("devices"))
        CHECK_FALSE(device.at("id").get<std::string>().starts_with("vulkan"));

    check_worked(run_towers({"train", "--towers", "cpu", "--steps", "1", "--batch", "2"}, no_driver));
    const std::string reason = all.at("absent").at("vulkan");
    check_failed(run_towers({"train", "--towers", "vulkan:0"}, no_driver), 2, reason);
    check_failed(run_towers({"train", "--backend", "vulkan"}, no_driver), 2, reason);
}

TEST_CASE("a software Vulkan device is used only when asked for") {
    const nlohmann::json all = nlohmann::json::parse(run_towers({"devices", "--json"}).out);
    for (const nlohmann::json& device : all.at("devices"))
        if (contains(device.at("kind").get<std::string>(), "GPU")) {
            MESSAGE("SKIPPED: this machine has a GPU, ", device.at("id").get<std::string>());
            return;
        }
    const TemporaryFolder folder;
    const Outcome outcome = run_towers({"train", "--steps", "1", "--batch", "2"}, {.folder = folder.path()});
    check_worked(outcome);
    CHECK(outcome.out.starts_with("tower_0: cpu "));
    CHECK_FALSE(contains(outcome.out, "tower_1"));
}

TEST_CASE("a card that two Vulkan drivers show has one tower, or two by name with a line") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    const nlohmann::json usual = list_devices();
    std::string name;
    for (const nlohmann::json& device : usual.at("devices"))
        if (device.at("id") == id) name = device.at("name");
    const TemporaryFolder folder;
    const RunOptions twice = broken_vulkan("shown@" + name + "=twice", folder.path());
    const nlohmann::json all = list_devices(twice);
    const std::vector<nlohmann::json> shown = vulkan_devices(all);
    REQUIRE(shown.size() == vulkan_devices(usual).size() + 1);
    std::string first, again;
    for (const nlohmann::json& device : shown)
        if (device.at("name") == name)
            first = device.at("id");
        else if (device.at("same_card_as") == first)
            again = device.at("id");
    write_text(folder / "tiny.toml", tiny_recipe("4", "kind = \"sgd\"\nlearning_rate = 0.1\n"));
    const Arguments few{"--recipe", "tiny.toml", "--batch", "12", "--steps", "1"};
    const Arguments train = Arguments{"train", "--data", "shapes"} + few;

    const Outcome once = run_towers(train + Arguments{"--backend", "vulkan"}, twice);
    check_worked(once);
    CHECK(contains(once.out, ": " + first + " ("));
    CHECK_FALSE(contains(once.out, ": " + again + " ("));
    const Outcome measured = run_towers(
        Arguments{"bench", "--backend", "vulkan", "--repetitions", "1", "--warm-up", "1"} + few, twice);
    check_worked(measured);
    CHECK_FALSE(contains(measured.out, again + " "));

    const Outcome both = run_towers(train + Arguments{"--towers", first + "," + again}, twice);
    CHECK(both.code == 0);
    CHECK(contains(both.out, "tower_1: " + again + " ("));
    CHECK(both.err == "towers: " + again + " is the same card as " + first + " (" + name +
                          "): they share its memory and its time\n");
    check_worked(run_towers(train + Arguments{"--towers", first + "," + first}, twice));
}
