#include "engine/shares/selection.h"
#include "backends/visible_cards.h"

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

DeviceInfo nvidia_card(const std::string& id, std::uint8_t card) {
    DeviceInfo info = device(id, discrete, card);
    info.vendor = "NVIDIA";
    return info;
}

/// A backend with one device that logs its calls.
class FakeBackend final : public Backend {
public:
    FakeBackend(std::string_view name, DeviceInfo device, std::string& asked)
        : name_(name), device_(std::move(device)), asked_(asked) {}
    std::string_view name() const override { return name_; }
    Listing list(const OpenOptions&) const override {
        asked_ += std::string(name_) + " lists, ";
        return {{device_}};
    }
    void try_drivers() const override { asked_ += std::string(name_) + " tries, "; }
    std::unique_ptr<Device> open(unsigned, const OpenOptions&) const override {
        asked_ += std::string(name_) + " opens, ";
        return nullptr;
    }

private:
    std::string_view name_;
    DeviceInfo device_;
    std::string& asked_;
};

} // namespace

TEST_CASE("a card that two backends show is used once, through the preferred backend") {
    const std::vector<DeviceInfo> devices = {device("cuda:0", discrete, 1), device("vulkan:0", discrete, 2),
                                             device("vulkan:1", discrete, 1), device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"cuda:0", "vulkan:0"});
}

TEST_CASE("a card that two drivers of a backend show is used once, unless both names are given") {
    std::vector<DeviceInfo> devices = {device("cuda:0", discrete, 1),
                                       device("vulkan:0", discrete, 1),
                                       device("vulkan:1", discrete, 2),
                                       device("vulkan:2", discrete, 1),
                                       device("vulkan:3", software, 3),
                                       device("vulkan:4", software, 3),
                                       device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"cuda:0", "vulkan:1"});
    CHECK(backend_towers(devices, "vulkan") == Ids{"vulkan:0", "vulkan:1", "vulkan:3"});
    CHECK(backend_towers(devices, "cuda") == Ids{"cuda:0"});
    CHECK(backend_towers(devices, "cpu") == Ids{"cpu"});
    CHECK(backend_towers(devices, "vulk").empty());
    devices[1].withheld = "another's"; // then the other driver's device is the first
    CHECK(backend_towers(devices, "vulkan") == Ids{"vulkan:1", "vulkan:2", "vulkan:3"});
}

TEST_CASE("cards without a UUID are not mistaken for one another") {
    const std::vector<DeviceInfo> devices = {device("vulkan:0", discrete, 0), device("vulkan:1", discrete, 0),
                                             device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"vulkan:0", "vulkan:1"});
    CHECK(backend_towers(devices, "vulkan") == Ids{"vulkan:0", "vulkan:1"});
}

TEST_CASE("one integrated GPU is used if there is no discrete one; software devices are not") {
    const std::vector<DeviceInfo> devices = {device("vulkan:0", software, 3),
                                             device("vulkan:1", integrated, 4),
                                             device("vulkan:2", integrated, 5), device("cpu", cpu, 0)};
    CHECK(default_towers(devices) == Ids{"vulkan:1"});
    CHECK(default_towers(std::vector{devices.front(), devices.back()}) == Ids{"cpu"});
}

TEST_CASE("a card of NVIDIA's that CUDA does not show is taken only when it is named") {
    const DeviceInfo own = nvidia_card("vulkan:0", 1), other = nvidia_card("vulkan:1", 2);
    DeviceInfo amd = device("vulkan:2", discrete, 3), lavapipe = device("vulkan:3", software, 4);
    amd.vendor = "AMD";
    lavapipe.vendor = "Mesa";
    const Backend::Listing none, one{{nvidia_card("cuda:0", 1)}};
    // A slice of card 1, whose UUID is its own
    const Backend::Listing slice{{nvidia_card("cuda:0", 9)}};
    const Backend::Listing no_uuid{{nvidia_card("cuda:0", 0)}};
    // Card 1 is too old for the cuda backend, and is not hidden.
    const Backend::Listing old{{nvidia_card("cuda:0", 8)}, "", {{"old", "it is old", own.uuid}}};
    struct Case {
        const Backend::Listing& cuda;
        const char* variable;
        bool own, other;
    };
    for (const auto& [cuda, variable, has_own, has_other] :
         {Case{none, nullptr, true, true}, Case{none, "", false, false}, Case{none, "0", false, false},
          Case{one, nullptr, true, false}, Case{one, "0", true, false}, Case{slice, "MIG-9", false, false},
          Case{slice, nullptr, false, false}, Case{old, nullptr, true, false},
          Case{no_uuid, "0", false, false}, Case{no_uuid, nullptr, false, false}}) {
        const Backend::Listing& its = cuda; // clang 14 captures no structured binding
        const char* const value = variable;
        CAPTURE(std::string(value == nullptr ? "not set" : value));
        const auto may_be_taken = [&](const DeviceInfo& each) {
            return why_withheld(each, its, value).empty();
        };
        CHECK(may_be_taken(own) == has_own);
        CHECK(may_be_taken(other) == has_other);
        CHECK(may_be_taken(nvidia_card("vulkan:0", 0)) == (has_own && has_other));
        CHECK(may_be_taken(amd));
        CHECK(may_be_taken(lavapipe));
        for (const DeviceInfo& each : cuda.devices) CHECK(may_be_taken(each));
    }
    std::vector<DeviceInfo> devices = {own, amd, device("cpu", cpu, 0)};
    devices[0].withheld = "another's";
    CHECK(default_towers(devices) == Ids{"vulkan:2"});
}

TEST_CASE("without CUDA's word, CUDA_VISIBLE_DEVICES tells of the cards that it names by UUID") {
    DeviceInfo card = nvidia_card("vulkan:0", 0);
    card.uuid = {0x89, 0x32, 0xf9, 0x37, 0xd7, 0x2c, 0x41, 0x06,
                 0xc1, 0x2f, 0x20, 0xbd, 0x9f, 0xae, 0xd9, 0xf6};
    const std::string uuid = "8932f937-d72c-4106-c12f-20bd9faed9f6",
                      other = "GPU-12345678-d72c-4106-c12f-20bd9faed9f6";
    struct Case {
        std::string variable;
        bool may_be_taken;
    };
    for (const Case& each : {Case{"GPU-" + uuid, true},
                             {"GPU-8932f937", true},
                             {"GPU-8932f937-d7", true},
                             {other + ",GPU-8932f937", true},
                             {"GPU-8932f937,0", true},
                             {"0,GPU-8932f937", false}, // 0 may be any card, and ends a list of UUIDs
                             {other + ",0,GPU-8932f937", false},
                             {"GPU-8932f937-0", false},
                             {"GPU-8932", false}, // may mean several
                             {"GPU-", false},
                             {other, false},
                             {"MIG-GPU-" + uuid + "/1/0", false}, // a part of it
                             {"MIG-" + uuid, false},
                             {uuid, false},
                             {"0", false},
                             {"-1", false},
                             {",", false},
                             {"", false}}) {
        CAPTURE(each.variable);
        const Backend::Listing none;
        CHECK(why_withheld(card, none, each.variable.c_str()).empty() == each.may_be_taken);
        // What CUDA shows counts where it works.
        const Backend::Listing another{{nvidia_card("cuda:0", 1)}};
        CHECK_FALSE(why_withheld(card, another, each.variable.c_str()).empty());
    }
}

TEST_CASE("drivers are tried in a child process before any is started in this one") {
    std::string asked;
    const FakeBackend first("cuda", nvidia_card("cuda:0", 1), asked),
        second("vulkan", nvidia_card("vulkan:0", 2), asked), third("cpu", device("cpu", cpu, 0), asked);
    const Backend* const backends[] = {&first, &second, &third};
    const std::vector<Backend::Listing> listings = list_devices({}, backends);
    CHECK(asked == "cuda tries, vulkan tries, cpu tries, cuda lists, vulkan lists, cpu lists, ");
    CHECK(listings[0].devices[0].withheld.empty());
    CHECK_FALSE(listings[1].devices[0].withheld.empty());
    asked.clear();
    open_device_of(backends, "cuda:0", {});
    CHECK(asked == "cuda tries, vulkan tries, cpu tries, cuda lists, cuda opens, ");
    asked.clear();
    open_device_of(backends, "cpu", {}); // has no driver
    CHECK(asked == "cpu lists, cpu opens, ");
}

} // namespace towers
