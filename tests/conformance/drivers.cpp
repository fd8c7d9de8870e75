#include "backends/vulkan/drivers.h"
#include "backends/vulkan/dispatch.h"

#include <doctest/doctest.h>

#include <set>

using towers::vulkan::manifests_in;

TEST_CASE("the shaders that share out work by subgroups are known, so that none of their lanes is missing") {
    std::set<std::string> found, expected;
    for (const auto& [name, dispatch] : towers::vulkan::all_hardware_dispatches())
        if (towers::vulkan::uses_subgroups(dispatch.code)) found.insert(name);
    for (const towers::KernelInfo& kernel : towers::all_kernels())
        if (kernel.item == towers::Item::subgroup) expected.insert(kernel.name);
    CHECK(found == expected);
}

TEST_CASE("the loader's list of drivers is read, as old and new loaders write it") {
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
    CHECK(manifests_in("").empty());
    CHECK(manifests_in("DRIVER:\nnonsense\nFound the following files:\n").empty());
}
