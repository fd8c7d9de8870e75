// A Vulkan driver or layer that fails, crashes or hangs when it starts must not prevent the use of other
// drivers' devices or of the CPU. towers must name it. The driver in tests/bad_vulkan and the layer in
// tests/broken_vulkan fail as we ask.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cstdlib>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The bad driver under two names, so that there can be two.
struct BadDrivers {
    TemporaryFolder folder;
    std::string first = folder / "bad.json", second = folder / "worse.json";

    BadDrivers() {
        const auto library = fs::path(TOWERS_BAD_VULKAN) / "libbad_vulkan.so";
        const nlohmann::json manifest = {{"file_format_version", "1.0.0"},
                                         {"ICD", {{"library_path", library}, {"api_version", "1.3.0"}}}};
        for (const std::string& name : {first, second}) write_text(name, manifest.dump());
    }

    /// With these drivers beside those of the surroundings
    RunOptions beside(const std::string& manifests, const std::string& behaviour) const {
        std::string variable = "VK_ADD_DRIVER_FILES", value = manifests;
        for (const char* const name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"})
            if (std::getenv(name) != nullptr) variable = name;
        if (const char* const others = std::getenv(variable.c_str()); others != nullptr && *others != '\0')
            value.append(":").append(others);
        return {.folder = folder.path(),
                .environment = {{variable, value}, {"TOWERS_BAD_DRIVER", behaviour}}};
    }
    /// With this driver alone
    RunOptions alone(const std::string& manifest, const std::string& behaviour) const {
        return {.folder = folder.path(),
                .environment = {{"VK_DRIVER_FILES", manifest}, {"TOWERS_BAD_DRIVER", behaviour}}};
    }
};

/// The broken layer as one that the loader adds to every program, such as an overlay.
struct ImplicitLayer {
    TemporaryFolder folder;
    std::string manifest = add("VK_LAYER_TOWERS_overlay");

    /// Adds it under one more name, and returns the manifest.
    std::string add(const std::string& name) const {
        const fs::path place = folder / "vulkan" / "implicit_layer.d";
        fs::create_directories(place);
        const nlohmann::json layer = {{"name", name},
                                      {"type", "GLOBAL"},
                                      {"library_path", TOWERS_BROKEN_VULKAN "/libbroken_vulkan.so"},
                                      {"api_version", "1.3.0"},
                                      {"implementation_version", "1"},
                                      {"description", "broken"},
                                      {"disable_environment", {{"NO_" + name, "1"}}}};
        write_text(place / (name + ".json"),
                   nlohmann::json{{"file_format_version", "1.2.0"}, {"layer", layer}}.dump());
        return place / (name + ".json");
    }

    RunOptions with(const std::string& rules) const {
        return {.folder = folder.path(),
                .environment = {{"XDG_DATA_HOME", folder.path()}, {"TOWERS_BROKEN_VULKAN", rules}}};
    }
};

/// Why this driver or device is left out; "" if it is not.
std::string reason_for(const nlohmann::json& all, const std::string& name) {
    for (const nlohmann::json& each : all.at("left_out"))
        if (each.at("name") == name) return each.at("reason");
    return "";
}

bool no_loader(const nlohmann::json& all) {
    const bool missing = contains(all.at("absent").value("vulkan", ""), "libvulkan");
    if (missing) MESSAGE("SKIPPED: no Vulkan loader");
    return missing;
}

constexpr const char* not_started = "Vulkan does not start with its driver: ";

} // namespace

TEST_CASE("a Vulkan driver that does not start is left out, with the reason, and the others' devices stay") {
    const nlohmann::json usual = list_devices();
    const std::vector<nlohmann::json> there = vulkan_devices(usual);
    if (there.empty()) {
        MESSAGE("SKIPPED: no Vulkan device");
        return;
    }
    const BadDrivers bad;
    const nlohmann::json harmless = list_devices(bad.beside(bad.first, ""));
    CHECK(vulkan_devices(harmless) == there);
    CHECK(contains(reason_for(harmless, "Bad device"), "it offers Vulkan 1.0"));

    struct Case {
        const char *behaviour, *reason;
    };
    const Case cases[] = {
        {"load=abort", "it crashes (Aborted)"},
        {"load=hang", "it takes more than 30 s"},
        {"vkCreateInstance=-1", ": ErrorOutOfHostMemory"}, // after Vulkan-Hpp's name for the function
        {"vkCreateInstance=crash", "it crashes (Segmentation fault)"},
        {"vkCreateInstance=exit", "it ends the program"},
        {"vkEnumeratePhysicalDevices=-1", ": ErrorOutOfHostMemory"},
        {"vkEnumeratePhysicalDevices=abort", "it crashes (Aborted)"},
        {"vkGetPhysicalDeviceProperties=crash", "it crashes (Segmentation fault)"}};
    for (const Case& each : cases) {
        CAPTURE(each.behaviour);
        const nlohmann::json all = list_devices(bad.beside(bad.first, each.behaviour));
        CHECK(vulkan_devices(all) == there);
        CHECK(all.at("left_out").size() == usual.at("left_out").size() + 1);
        CHECK(reason_for(all, bad.first).starts_with(not_started));
        CHECK(reason_for(all, bad.first).ends_with(each.reason));
    }
    // The loader itself may silently leave out these.
    for (const char* const behaviour : {"vk_icdNegotiateLoaderICDInterfaceVersion=-3", "vkCreateInstance=-3",
                                        "vkCreateInstance=-9", "vkEnumeratePhysicalDevices=-3"}) {
        CAPTURE(behaviour);
        CHECK(vulkan_devices(list_devices(bad.beside(bad.first, behaviour))) == there);
    }

    const RunOptions options = bad.beside(bad.first, "vkCreateInstance=abort");
    const std::string line =
        "vulkan     left out: " + bad.first + ": " + not_started + "it crashes (Aborted)\n";
    CHECK(contains(run_towers({"devices"}, options).out, line));
    if (quick_device().starts_with("vulkan:"))
        check_worked(run_towers({"train", "--data", "shapes", "--towers", quick_device(), "--steps", "1",
                                 "--batch", "2", "--run", "run"},
                                options));
}

TEST_CASE("each of two bad Vulkan drivers is found, unless the user has disabled it") {
    const nlohmann::json usual = list_devices();
    if (vulkan_devices(usual).empty()) {
        MESSAGE("SKIPPED: no Vulkan device");
        return;
    }
    const BadDrivers bad;
    RunOptions options = bad.beside(bad.first + ":" + bad.second, "vkCreateInstance=abort");
    const nlohmann::json both = list_devices(options);
    CHECK(vulkan_devices(both) == vulkan_devices(usual));
    CHECK_FALSE(reason_for(both, bad.first).empty());
    CHECK_FALSE(reason_for(both, bad.second).empty());

    options.environment.emplace_back("VK_LOADER_DRIVERS_DISABLE", "*bad.json");
    const nlohmann::json one = list_devices(options);
    CHECK(vulkan_devices(one) == vulkan_devices(usual));
    CHECK(reason_for(one, bad.first).empty());
    CHECK_FALSE(reason_for(one, bad.second).empty());

    // A parent that ignores SIGCHLD does not hear how its children end.
    const Outcome deaf =
        Program({"sh", "-c", "trap '' CHLD; exec " TOWERS_PROGRAM " devices"}, options).end();
    check_worked(deaf);
    CHECK(contains(deaf.out, "left out: " + bad.second));
}

TEST_CASE("if the only Vulkan driver does not start, Vulkan is absent and the CPU trains") {
    if (no_loader(list_devices())) return;
    const BadDrivers bad;
    for (const char* const behaviour :
         {"load=abort", "vkCreateInstance=-1", "vkEnumeratePhysicalDevices=hang"}) {
        CAPTURE(behaviour);
        const RunOptions options = bad.alone(bad.first, behaviour);
        const nlohmann::json all = list_devices(options);
        CHECK(vulkan_devices(all).empty());
        CHECK_FALSE(all.at("absent").at("vulkan").get<std::string>().empty());
        CHECK_FALSE(reason_for(all, bad.first).empty());
        const std::string reason = bad.first + " is left out: " + reason_for(all, bad.first);
        check_failed(run_towers({"train", "--towers", "vulkan:0"}, options), 2, reason);
    }
    RunOptions layered = bad.alone(bad.first, "load=abort");
    layered.environment.emplace_back("VK_INSTANCE_LAYERS", "VK_LAYER_of_mine");
    CHECK(reason_for(list_devices(layered), bad.first)
              .ends_with("; try without the layers in VK_INSTANCE_LAYERS (VK_LAYER_of_mine)"));
    // A user who does not choose devices learns that one is missing.
    const Arguments train{"train", "--data", "shapes", "--steps", "1", "--batch", "2", "--run", "run"};
    const Outcome outcome = run_towers(train, bad.alone(bad.first, "load=abort"));
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.err, "vulkan: " + bad.first + " is left out: " + not_started));
    CHECK(contains(outcome.out, "tower_0: cpu"));
}

TEST_CASE("an implicit layer that does not start is left out by its name, and no driver is blamed") {
    const nlohmann::json usual = list_devices();
    const std::vector<nlohmann::json> there = vulkan_devices(usual);
    if (there.empty()) {
        MESSAGE("SKIPPED: no Vulkan device");
        return;
    }
    const ImplicitLayer layer;
    CHECK(list_devices(layer.with("")) == usual);
    const std::string name = "VK_LAYER_TOWERS_overlay (" + layer.manifest + ")",
                      not_with = "Vulkan does not start with this layer: ";
    const std::pair<std::string, std::string> cases[] = {
        {"vkNegotiateLoaderLayerInterfaceVersion=crash", "it crashes (Segmentation fault)"},
        {"vkCreateInstance=abort", "it crashes (Aborted)"},
        {"vkCreateInstance=exit", "it ends the program"},
        {"vkCreateInstance=VK_ERROR_INITIALIZATION_FAILED", "vkCreateInstance: ErrorInitializationFailed"},
        {"vkEnumeratePhysicalDevices=hang", "it takes more than 10 s"},
        {"vkEnumeratePhysicalDevices=VK_ERROR_DEVICE_LOST", "vkEnumeratePhysicalDevices: ErrorDeviceLost"},
        {"vkEnumeratePhysicalDevices=VK_ERROR_INITIALIZATION_FAILED", "no device is found"},
        {"vkGetPhysicalDeviceProperties2=crash", "it crashes (Segmentation fault)"}};
    for (const auto& [rule, reason] : cases) {
        const std::string& broken = rule; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(broken);
        const nlohmann::json all = list_devices(layer.with(rule));
        CHECK(vulkan_devices(all) == there);
        CHECK(all.at("left_out").size() == usual.at("left_out").size() + 1);
        CHECK(reason_for(all, name) == not_with + reason);
    }

    // Beside a driver that fails, and with a second such layer
    const BadDrivers bad;
    RunOptions options = layer.with("vkCreateInstance=crash");
    for (const auto& each : bad.beside(bad.first, "load=abort").environment)
        options.environment.push_back(each);
    const std::string second = "VK_LAYER_TOWERS_capture (" + layer.add("VK_LAYER_TOWERS_capture") + ")";
    const nlohmann::json all = list_devices(options);
    CHECK(vulkan_devices(all) == there);
    CHECK(all.at("left_out").size() == usual.at("left_out").size() + 3);
    CHECK(reason_for(all, bad.first).starts_with(not_started));
    for (const std::string& each : {name, second}) CHECK(reason_for(all, each).starts_with(not_with));
    // The user can see it, and get rid of the message.
    const Arguments train{"train", "--data", "shapes", "--steps", "1", "--batch", "2", "--run", "run"};
    const Outcome told = run_towers(train, layer.with("vkCreateInstance=crash"));
    CHECK(told.code == 0);
    CHECK(contains(told.err, "vulkan: " + name + " is left out: " + not_with));
    options = layer.with("vkCreateInstance=crash");
    for (const char* const off : {"NO_VK_LAYER_TOWERS_overlay", "NO_VK_LAYER_TOWERS_capture"})
        options.environment.emplace_back(off, "1");
    CHECK(list_devices(options) == usual);
}

TEST_CASE("a layer's damaged manifest, because of which some loaders start no driver, is named") {
    const nlohmann::json usual = list_devices();
    if (vulkan_devices(usual).empty()) {
        MESSAGE("SKIPPED: no Vulkan device");
        return;
    }
    const ImplicitLayer layer;
    const std::string whole = read_text(layer.manifest);
    for (const std::string& text : {std::string(), whole.substr(0, whole.size() / 2), std::string("[]")}) {
        CAPTURE(text);
        write_text(layer.manifest, text);
        const nlohmann::json all = list_devices(layer.with(""));
        if (all != usual) CHECK(contains(all.at("absent").at("vulkan").get<std::string>(), layer.manifest));
    }
}

TEST_CASE("if all Vulkan drivers fail alike, none is blamed, and the loader's own words are told") {
    const nlohmann::json usual = list_devices();
    if (vulkan_devices(usual).size() < 2) {
        MESSAGE("SKIPPED: fewer than two Vulkan devices");
        return;
    }
    const auto absence = [&](const std::string& rule, std::size_t left_out) {
        const nlohmann::json all = list_devices(broken_vulkan(rule));
        CHECK(vulkan_devices(all).empty());
        CHECK(all.at("left_out").size() == left_out);
        return all.at("absent").at("vulkan").get<std::string>();
    };
    const std::string failing = absence("vkEnumeratePhysicalDevices=VK_ERROR_DEVICE_LOST", 0),
                      crashing = absence("vkCreateInstance=crash", 0),
                      hanging = absence("vkEnumeratePhysicalDevices=hang", 0),
                      none = absence("vkEnumeratePhysicalDevices=VK_ERROR_INITIALIZATION_FAILED", 0);
    const std::string without = "; try without the layers in VK_INSTANCE_LAYERS (VK_LAYER_TOWERS_broken)";
    CHECK(failing.ends_with(" drivers: vkEnumeratePhysicalDevices: ErrorDeviceLost" + without));
    CHECK(crashing.ends_with(" drivers: it crashes (Segmentation fault)" + without));
    CHECK(hanging.ends_with(" drivers: it takes more than 30 s" + without));
    CHECK(contains(none, "found a device (vkEnumeratePhysicalDevices: ErrorInitializationFailed); install"));
}

TEST_CASE("a driver's name that is not UTF-8 does not spoil the list of devices") {
    const BadDrivers bad;
    const std::string odd = bad.folder / "caf\xe9.json";
    fs::copy_file(bad.first, odd);
    const nlohmann::json all = list_devices(bad.alone(odd, "load=abort"));
    if (no_loader(all)) return;
    CHECK(contains(all.dump(), "caf\ufffd.json"));
}
