#include "engine/towers/selection.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

DeviceInfo device(const std::string& id, DeviceKind kind, std::uint8_t card) {
    DeviceInfo info;
    info.id = id;
    info.kind = kind;
    info.uuid[0] = card;
    return info;
}

using Ids = std::vector<std::string>;
constexpr DeviceKind discrete = DeviceKind::discrete_gpu, integrated = DeviceKind::integrated_gpu,
                     software = DeviceKind::software, cpu = DeviceKind::cpu;

} // namespace

TEST_CASE("a card that two backends show is used once, through the preferred backend") {
    const std::vector<DeviceInfo> devices = {device("cuda:0", discrete, 1), device("vulkan:0", discrete, 2),
                                             device("vulkan:1", discrete, 1), device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"cuda:0", "vulkan:0"});
}

TEST_CASE("cards without a UUID are not mistaken for one another") {
    const std::vector<DeviceInfo> devices = {device("vulkan:0", discrete, 0), device("vulkan:1", discrete, 0),
                                             device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"vulkan:0", "vulkan:1"});
}

TEST_CASE("one integrated GPU is used if there is no discrete one; software devices are not") {
    const std::vector<DeviceInfo> devices = {device("vulkan:0", software, 3),
                                             device("vulkan:1", integrated, 4),
                                             device("vulkan:2", integrated, 5), device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"vulkan:1"});
    CHECK(default_towers(std::vector{devices.front(), devices.back()}) == Ids{"cpu"});
}

} // namespace towers
