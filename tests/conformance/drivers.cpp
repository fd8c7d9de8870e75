#include "backends/vulkan/drivers.h"
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/implicit_layers.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <set>
#include <stdexcept>
#include <string>

using towers::vulkan::manifests_in;

namespace {

const towers::DeviceFacts any_device{.busy_groups = 256, .subgroup_size = 32, .shared_memory = 48 << 10};

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "not set";
}

} // namespace

TEST_CASE("loaders that know only VK_ICD_FILENAMES get the same drivers as later ones") {
    using towers::vulkan::leave_out_failing_drivers;
    towers::test::Environment environment;
    // The user's choice applies to both. If both are set, later loaders use the first.
    for (const char* const old : {static_cast<const char*>(nullptr), "b.json"}) {
        environment.set("VK_DRIVER_FILES", "a.json");
        environment.set("VK_ICD_FILENAMES", old);
        CHECK(leave_out_failing_drivers([] {
                  return variable("VK_ICD_FILENAMES") == "a.json";
              }).failure.empty());
        CHECK(variable("VK_DRIVER_FILES") == "a.json");
        CHECK(variable("VK_ICD_FILENAMES") == "a.json");
    }
    for (const char* const none : {static_cast<const char*>(nullptr), ""}) {
        environment.set("VK_DRIVER_FILES", none);
        environment.set("VK_ICD_FILENAMES", "b.json");
        leave_out_failing_drivers([] { return true; });
        CHECK(variable("VK_DRIVER_FILES") == (none == nullptr ? "not set" : none));
        CHECK(variable("VK_ICD_FILENAMES") == "b.json");
    }
    // An old loader finds two drivers; the first fails whenever it is started.
    environment.set("VK_DRIVER_FILES", nullptr);
    environment.set("VK_ICD_FILENAMES", nullptr);
    const auto start = [] {
        const std::string chosen = variable("VK_ICD_FILENAMES");
        if (variable("VK_LOADER_DEBUG") == "driver")
            std::fprintf(stderr, "DRIVER: Found the following files:\nDRIVER: bad.json\nDRIVER: good.json\n");
        if (chosen == "not set" || chosen.find("bad.json") != chosen.npos) throw std::runtime_error("bad");
        return true;
    };
    const towers::vulkan::Drivers drivers = leave_out_failing_drivers(start);
    CHECK(drivers.failure.empty());
    REQUIRE(drivers.left_out.size() == 1);
    CHECK(drivers.left_out[0].name == "bad.json");
    CHECK(variable("VK_ICD_FILENAMES") == "good.json");
    CHECK(variable("VK_DRIVER_FILES") == "good.json");
}

TEST_CASE("shaders that use subgroups are recognized, so that they get full ones") {
    std::set<std::string> found, expected;
    for (const auto& [name, dispatch] : towers::vulkan::all_hardware_dispatches(any_device))
        if (towers::vulkan::uses_subgroups(dispatch.code)) found.insert(name);
    for (const towers::KernelInfo& kernel : towers::all_kernels())
        if (kernel.item == towers::Item::subgroup) expected.insert(kernel.name);
    for (const char* const by_workgroups :
         {"distort_images", "gradient_norm", "step_results", "transform_images"}) // with workgroupAdd()
        expected.insert(by_workgroups);
    CHECK(found == expected);
}

TEST_CASE("a shader that requests to keep NaN is still valid") {
    if (std::system("spirv-val --version > /dev/null 2>&1") != 0) {
        MESSAGE("SKIPPED: there is no spirv-val");
        return;
    }
    const towers::test::TemporaryFolder folder;
    const std::string file = (folder / "shader.spv").string();
    std::set<const std::uint32_t*> seen;
    for (const auto& [name, dispatch] : towers::vulkan::all_hardware_dispatches(any_device)) {
        if (!seen.insert(dispatch.code.data()).second) continue;
        const std::string& shader = name; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(shader);
        const std::vector<std::uint32_t> code = towers::vulkan::keeping_nan(dispatch.code);
        towers::test::write_text(
            file, {reinterpret_cast<const char*>(code.data()), code.size() * sizeof(std::uint32_t)});
        CHECK(std::system(("spirv-val --target-env vulkan1.3 " + file).c_str()) == 0);
        // Two words of capability and four of execution mode, and the rest as it was
        CHECK(code.size() == dispatch.code.size() + 6);
        CHECK(std::ranges::count(code, 4461u) == std::ranges::count(dispatch.code, 4461u) + 1);
        CHECK(std::ranges::count(code, 4466u) == std::ranges::count(dispatch.code, 4466u) + 1);
    }
}

TEST_CASE("a product's shader is compiled for its tile, and by quads neither loops over arrays nor branches "
          "between loads") {
    constexpr std::uint32_t header = 5, op_execution_mode = 16, local_size = 17, op_execution_mode_id = 331,
                            local_size_id = 38, op_constant = 43, op_spec_constant_true = 48,
                            op_spec_constant_op = 52, op_variable = 59, op_barrier = 224, op_loop = 246,
                            op_selection = 247, function = 7;
    unsigned products = 0;
    std::set<const std::uint32_t*> seen;
    for (const auto& [name, dispatch] : towers::vulkan::all_hardware_dispatches(any_device)) {
        if (!name.starts_with("conv2d_")) continue;
        ++products;
        const std::string& shader = name; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(shader);
        CHECK(dispatch.constants.empty());
        const std::span<const std::uint32_t> code = dispatch.code;
        CHECK(seen.insert(code.data()).second);
        unsigned invocations = 0;
        unsigned invocations_id = 0; // older versions of glslang name a constant, which comes later
        unsigned constants = 0;      // that are specialized when a pipeline is made
        unsigned variables = 0;      // of an invocation
        unsigned branches = 0, branches_of_slice = 0; // since a loop began; from there to the last barrier
        for (std::size_t i = header; i < code.size(); i += code[i] >> 16) {
            const std::uint32_t op = code[i] & 0xffffu;
            if (op == op_execution_mode && code[i + 2] == local_size) invocations = code[i + 3];
            if (op == op_execution_mode_id && code[i + 2] == local_size_id) invocations_id = code[i + 3];
            if (op == op_constant && code[i + 2] == invocations_id) invocations = code[i + 3];
            constants += op >= op_spec_constant_true && op <= op_spec_constant_op ? 1 : 0;
            variables += op == op_variable && code[i + 3] == function ? 1 : 0;
            branches = op == op_loop ? 0 : branches + (op == op_selection ? 1 : 0);
            if (op == op_barrier) branches_of_slice = branches;
        }
        CHECK(invocations == (shader.ends_with("64x32 quads") ? 128 : 256));
        CHECK(constants == 0);
        if (!shader.ends_with("quads")) continue;
        CHECK(variables == 0);
        CHECK(branches_of_slice == 0);
    }
    CHECK(products == 3 * (std::size(towers::tiles) + std::size(towers::quad_tiles)));
}

TEST_CASE("the driver lists of old and new loaders are read") {
    const std::vector<std::string> expected = {"/tmp/a driver/a.json", "/usr/share/vulkan/icd.d/b.json"};
    CHECK(manifests_in(R"(INFO:             Vulkan Loader Version 1.3.239
DRIVER:           Searching for driver manifest files
DRIVER:              In following locations:
DRIVER:                 /tmp/a driver/a.json
DRIVER:                 /etc/vulkan/icd.d
DRIVER:              Found the following files:
DRIVER:                 /tmp/a driver/a.json
DRIVER:                 /usr/share/vulkan/icd.d/b.json
DRIVER:           Found ICD manifest file /tmp/a driver/a.json, version "1.0.0"
DEBUG | DRIVER:   Searching for ICD drivers named liba.json
WARNING | DRIVER: Driver "b.json" ignored because it was disabled by env var 'VK_LOADER_DRIVERS_DISABLE'
)") == expected);
    CHECK(manifests_in(R"([Vulkan Loader] DRIVER:         Searching for driver manifest files
[Vulkan Loader] DRIVER:            In following locations:
[Vulkan Loader] DRIVER:               /tmp/a driver/a.json
[Vulkan Loader] DRIVER:            Found the following files:
[Vulkan Loader] DRIVER:               /tmp/a driver/a.json
[Vulkan Loader] DRIVER:               /usr/share/vulkan/icd.d/b.json
[Vulkan Loader] DRIVER:         Found ICD manifest file /tmp/a driver/a.json, version 1.0.0
)") == expected);
    CHECK(manifests_in(R"(LAYER:            Searching for layer manifest files
LAYER:               Found the following files:
LAYER:                  /tmp/a driver/a.json
DEBUG | LAYER:    Loading layer library liba.so
LAYER:               Found the following files:
LAYER:                  /usr/share/vulkan/icd.d/b.json
)") == expected);
    CHECK(manifests_in("").empty());
    CHECK(manifests_in("DRIVER:\nnonsense\nFound the following files:\n").empty());
}

TEST_CASE("manifests tell how to disable implicit layers, and broken ones do no harm") {
    const towers::test::TemporaryFolder folder;
    std::vector<std::string> manifests;
    const auto add = [&](const char* text) {
        manifests.push_back((folder / std::to_string(manifests.size())).string());
        towers::test::write_text(manifests.back(), text);
    };
    add(R"({"layer": {"name": "overlay", "disable_environment": {"NO_OVERLAY": "yes", "OFF": 1}}})");
    add(R"({"layers": [{"name": "explicit"}, {"name": "b", "disable_environment": {"NO_B": "1"}}, 3]})");
    for (const char* const broken :
         {"", "{", "[]", "3", R"({"layer": 3})", R"({"layers": 3})", R"({"layers": {"a": {"name": "x"}}})",
          R"({"layer": {"name": 3, "disable_environment": {"X": "1"}}})",
          R"({"layer": {"name": "x", "disable_environment": "X"}})"})
        add(broken);
    manifests.push_back((folder / "none").string());
    CHECK(towers::vulkan::damaged(manifests) ==
          std::vector<std::string>{manifests[2], manifests[3], manifests.back()});
    const auto layers = towers::vulkan::implicit_layers(manifests);
    REQUIRE(layers.size() == 2);
    CHECK(layers[0].name == "overlay");
    CHECK(layers[0].manifest == manifests[0]);
    CHECK(layers[0].off ==
          std::vector<std::pair<std::string, std::string>>{{"NO_OVERLAY", "yes"}, {"OFF", "1"}});
    CHECK(layers[1].name == "b");
    towers::test::Environment environment;
    for (const char* const name : {"NO_OVERLAY", "OFF", "NO_B"}) environment.set(name, nullptr);
    towers::vulkan::disable(layers);
    CHECK(variable("NO_OVERLAY") == "yes");
    CHECK(variable("NO_B") == "1");
}
