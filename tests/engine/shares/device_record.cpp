// Devices change places between two starts: another slot, CUDA_VISIBLE_DEVICES, another order of drivers.
#include "engine/shares/device_record.h"
#include "engine/shares/selection.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace towers {
namespace {

using Ids = std::vector<std::string>;

DeviceInfo device(const std::string& id, const std::string& name, std::uint8_t uuid = 0) {
    DeviceInfo info;
    info.id = id;
    info.name = name;
    info.uuid[0] = uuid;
    info.kind = id == "cpu" ? DeviceKind::cpu : DeviceKind::discrete_gpu;
    return info;
}

std::vector<DeviceRecord> records_of(const std::vector<DeviceInfo>& devices) {
    std::vector<DeviceRecord> records;
    for (const DeviceInfo& each : devices) records.push_back(record_of(each));
    return records;
}

struct Case {
    const char* what;
    std::vector<DeviceInfo> before, now;
    Ids found;
};

void check(const Case& each) {
    CAPTURE(each.what);
    CHECK(find_again(records_of(each.before), each.now) == each.found);
}

const DeviceInfo cpu = device("cpu", "EPYC");

} // namespace

TEST_CASE("a device is found by name and UUID, wherever it is now") {
    const Case cases[] = {
        {"nothing has changed",
         {device("vulkan:0", "A", 1), device("vulkan:1", "B", 2), cpu},
         {device("vulkan:0", "A", 1), device("vulkan:1", "B", 2), cpu},
         {"vulkan:0", "vulkan:1", "cpu"}},
        {"two have changed places",
         {device("vulkan:0", "A", 1), device("vulkan:1", "B", 2), cpu},
         {device("vulkan:0", "B", 2), device("vulkan:1", "A", 1), cpu},
         {"vulkan:1", "vulkan:0", "cpu"}},
        {"two of one model have",
         {device("cuda:0", "A", 1), device("cuda:1", "A", 2)},
         {device("cuda:0", "A", 2), device("cuda:1", "A", 1)},
         {"cuda:1", "cuda:0"}},
        {"another came before it",
         {device("vulkan:0", "A", 1)},
         {device("vulkan:0", "B", 2), device("vulkan:1", "A", 1)},
         {"vulkan:1"}},
        {"repeated towers",
         {device("vulkan:0", "A", 1), device("vulkan:0", "A", 1), cpu},
         {device("vulkan:0", "B", 2), device("vulkan:1", "A", 1), cpu},
         {"vulkan:1", "vulkan:1", "cpu"}},
        {"a lost one is not there any more",
         {device("vulkan:0", "A", 1), device("vulkan:1", "B", 2), cpu},
         {device("vulkan:0", "B", 2), cpu},
         {"", "vulkan:0", "cpu"}},
        {"one of two of one model is gone",
         {device("cuda:0", "A", 1), device("cuda:1", "A", 2)},
         {device("cuda:0", "A", 2)},
         {"", "cuda:0"}},
        {"the processor is another", {cpu}, {device("cpu", "Xeon")}, {"cpu"}},
        {"another backend shows it", {device("cuda:0", "A", 1)}, {device("vulkan:0", "A", 1)}, {""}},
        {"a name that is not UTF-8",
         {device("vulkan:0", "\xff", 1)},
         {device("vulkan:1", "\xff", 1)},
         {"vulkan:1"}},
    };
    for (const Case& each : cases) check(each);
}

TEST_CASE("where UUIDs are missing, equal or of slots, the name tells devices apart, and then the place") {
    const Case cases[] = {
        {"no UUIDs, as an early version recorded",
         {device("vulkan:0", "A"), device("vulkan:1", "B")},
         {device("vulkan:0", "B", 2), device("vulkan:1", "A", 1)},
         {"vulkan:1", "vulkan:0"}},
        {"no UUIDs and one model: each stays",
         {device("vulkan:0", "A"), device("vulkan:1", "A")},
         {device("vulkan:0", "A"), device("vulkan:1", "A")},
         {"vulkan:0", "vulkan:1"}},
        {"one UUID for both",
         {device("vulkan:0", "A", 1), device("vulkan:1", "B", 1)},
         {device("vulkan:0", "B", 1), device("vulkan:1", "A", 1)},
         {"vulkan:1", "vulkan:0"}},
        {"one UUID and one name for both: each stays",
         {device("vulkan:0", "A", 1), device("vulkan:1", "A", 1)},
         {device("vulkan:0", "A", 1), device("vulkan:1", "A", 1)},
         {"vulkan:0", "vulkan:1"}},
        {"the cards have changed slots, which their UUIDs tell",
         {device("vulkan:0", "A", 1), device("vulkan:1", "B", 2)},
         {device("vulkan:0", "B", 1), device("vulkan:1", "A", 2)},
         {"vulkan:1", "vulkan:0"}},
        {"another machine's cards of the same model",
         {device("cuda:0", "A", 1), device("cuda:1", "A", 2)},
         {device("cuda:0", "A", 3), device("cuda:1", "A", 4)},
         {"cuda:0", "cuda:1"}},
        {"its driver calls it otherwise now",
         {device("cuda:0", "GeForce A", 1)},
         {device("cuda:0", "GeForce A", 2), device("cuda:1", "NVIDIA GeForce A", 1)},
         {"cuda:0"}}, // of another machine, perhaps
        {"its driver calls it otherwise and has moved it",
         {device("cuda:0", "GeForce A", 1)},
         {device("cuda:0", "NVIDIA GeForce B", 2), device("cuda:1", "NVIDIA GeForce A", 1)},
         {"cuda:1"}},
        {"a software driver's version is in its name, and decides its UUID",
         {device("vulkan:0", "llvmpipe (LLVM 15.0.6, 256 bits)", 1)},
         {device("vulkan:0", "SwiftShader Device (Subzero)", 2),
          device("vulkan:1", "llvmpipe (LLVM 17.0.1, 256 bits)", 3)},
         {"vulkan:1"}},
        {"another card is in its place", {device("vulkan:0", "A", 1)}, {device("vulkan:0", "B", 2)}, {""}},
        {"another card is in the slot that its UUID tells",
         {device("vulkan:0", "AMD Radeon RX 580 Series (RADV POLARIS10)", 1)},
         {device("vulkan:0", "AMD Radeon RX 6800 (RADV NAVI21)", 1)},
         {""}},
        {"another, with brackets in the middle",
         {device("vulkan:0", "AMD Radeon (TM) RX 480", 1)},
         {device("vulkan:0", "AMD Radeon (TM) R9 Fury", 1)},
         {""}},
        {"its driver names it by its chip no more",
         {device("vulkan:0", "AMD RADV POLARIS10 (ACO)", 1)},
         {device("vulkan:0", "AMD Radeon RX 580 Series (RADV POLARIS10)", 1)},
         {"vulkan:0"}},
        {"its driver calls it otherwise now, and there were no UUIDs",
         {device("cuda:0", "GeForce RTX 3090"), device("cuda:1", "GeForce RTX 3090")},
         {device("cuda:0", "NVIDIA GeForce RTX 3090", 1), device("cuda:1", "NVIDIA GeForce RTX 3090", 2)},
         {"cuda:0", "cuda:1"}},
        {"another is in its place, and there were no UUIDs",
         {device("vulkan:0", "A")},
         {device("vulkan:0", "B", 2)},
         {""}},
    };
    for (const Case& each : cases) check(each);
}

TEST_CASE("a withheld card is found again only where it is certainly itself") {
    DeviceInfo others = device("vulkan:0", "A", 2), own = device("vulkan:1", "A", 1);
    others.withheld = own.withheld = "CUDA does not show it";
    const std::vector<DeviceRecord> before{record_of(device("vulkan:0", "A", 1))};
    CHECK(find_again(before, std::vector{others}) == Ids{""});
    CHECK(find_again(before, std::vector{others, own}) == Ids{"vulkan:1"});
    others.withheld.clear();
    CHECK(find_again(before, std::vector{others}) == Ids{"vulkan:0"});
}

TEST_CASE("the user is told which device is missing, why, and what is there") {
    const std::vector<DeviceRecord> before = records_of(
        {device("cuda:1", "H100", 1), cpu, device("vulkan:0", "B", 2), device("cuda:1", "H100", 1)});
    const std::vector<Backend::Listing> all = {
        {{device("cuda:1", "H100", 1)}}, {{device("vulkan:0", "B", 2)}}, {{cpu}}};
    const FoundAgain there = find_devices(before, all);
    CHECK(there.ids == Ids{"cuda:1", "cpu", "vulkan:0", "cuda:1"});
    CHECK(there.missing == "");
    const std::vector<Backend::Listing> other = {
        {{}, "no driver"}, {{device("vulkan:0", "C", 3), device("vulkan:1", "H100", 1)}}, {{cpu}}};
    const FoundAgain gone = find_devices(before, other);
    CHECK(gone.ids == Ids{"", "cpu", "", ""});
    CHECK(gone.missing ==
          "tower_0 was on cuda:1 (H100), which is not there (cuda: no driver), but as vulkan:1; "
          "tower_2 was on vulkan:0 (B), which is not there; "
          "this machine has vulkan:0 (C), vulkan:1 (H100), cpu (EPYC)");
}

} // namespace towers
