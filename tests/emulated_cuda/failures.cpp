// What backends/cuda makes of a driver that is absent or old, of calls that are refused, and of lost cards.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/functions.h"
#include "backends/launch/lowering.h"
#include "backends/visible_cards.h"
#include "engine/shares/selection.h"
#include "tests/emulated_cuda/faults.h"
#include "tests/support/devices.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <set>

using namespace towers;
using namespace towers::test;
using Failure = std::pair<const char*, cudaError_t>;

namespace {

constexpr std::size_t bytes = 64;

/// Lets everything work again when a test ends.
struct Mended {
    ~Mended() {
        emulated::mend();
        emulated::claims() = {};
    }
};

Backend::Listing listing() { return cuda_backend().list(open_options()); }

/// A copy within the device, submitted twice.
void use(Device& device) {
    const Buffer from = device.allocate(bytes, Memory::device), to = device.allocate(bytes, Memory::staging);
    const Command commands[] = {Timestamp{}, Copy{{&from, 0, bytes}, {&to, 0, bytes}}, Timestamp{}};
    const Recording recording = device.record(commands);
    device.wait(device.submit(recording, Queue::upload));
    const Ticket first = device.submit(recording, Queue::download);
    device.wait(device.submit(recording, Queue::compute, {&first, 1}));
    const std::size_t moments = device.timestamps(recording).size();
    CHECK(moments == 2);
    const std::uint64_t free = device.free_memory();
    CHECK(free > 0);
}

} // namespace

TEST_CASE("CUDA is absent with its reason when there is no driver, an old one, or no card that will do") {
    const Mended mended;
    const std::vector<DeviceInfo> usual = listing().devices;
    REQUIRE(!usual.empty());
    const auto absence = [](const emulated::Claims& claims) {
        emulated::claims() = claims;
        CHECK(listing().devices.empty());
        return listing().absence;
    };
    CHECK(absence({.driver = 0}).starts_with("no NVIDIA driver is installed"));
    CHECK(absence({.driver = 12040})
              .starts_with("the NVIDIA driver is for CUDA 12.4, this program needs 13.0"));
    CHECK(absence({.major = 7, .minor = 0}) == "no GPU has what the kernels need");
    CHECK(listing().left_out.size() == usual.size());
    CHECK(listing().left_out[0].reason == "its compute capability is 7.0, but 7.5 is needed");
    CHECK(listing().left_out[0].name == usual[0].name);
    CHECK(absence({.major = 8, .minor = 6}) == "no GPU has what the kernels need");
    CHECK(listing().left_out[0].reason.starts_with(
        "its compute capability is 8.6, and this program was built"));

    emulated::claims() = {};
    emulated::fail_call("cudaGetDeviceCount", 1, cudaErrorNoDevice);
    CHECK(listing().absence.starts_with("the NVIDIA driver shows no GPU"));
    emulated::fail_call("cudaGetDeviceCount", 1, cudaErrorUnknown);
    const Backend::Listing failed = listing();
    CHECK(failed.absence == "the NVIDIA driver did not start");
    REQUIRE(failed.left_out.size() == 1);
    CHECK(failed.left_out[0].reason == "unknown error (cudaErrorUnknown)");
    CHECK(listing().devices.size() == usual.size());
}

TEST_CASE("parts of a card are devices of their own, and none of them is the card") {
    const Mended mended;
    emulated::claims().parts = true;
    const std::vector<DeviceInfo> devices = listing().devices;
    if (devices.size() < 2) return;
    CHECK(default_towers(devices).size() == devices.size());
    DeviceInfo card = devices[0]; // as Vulkan shows it
    card.id = "vulkan:0";
    emulated::claims().parts = false;
    card.uuid = listing().devices[0].uuid;
    CHECK(why_withheld(card, {devices}, nullptr) ==
          "CUDA shows other cards or a part of this one (MIG), but not the card");
}

TEST_CASE("a card that refuses a call while it is opened says so and can be opened again") {
    const Mended mended;
    const Failure failures[] = {{"cudaGetDeviceProperties", cudaErrorUnknown},
                                {"cudaSetDevice", cudaErrorMemoryAllocation},
                                {"cudaStreamCreateWithFlags", cudaErrorMemoryAllocation},
                                {"cudaEventCreateWithFlags", cudaErrorMemoryAllocation},
                                {"cudaEventRecord", cudaErrorLaunchFailure},
                                {"cudaEventSynchronize", cudaErrorIllegalAddress},
                                {"cudaFuncGetAttributes", cudaErrorInvalidDeviceFunction}};
    for (const auto& [function, error] : failures) {
        CAPTURE(function);
        emulated::fail_call(function, 1, error);
        const std::string expected = cudaGetErrorString(error);
        CHECK_THROWS_WITH_AS(open_device("cuda:0", open_options()), doctest::Contains(expected.c_str()),
                             DeviceError);
        emulated::mend();
        use(*open_device("cuda:0", open_options()));
    }
    emulated::fail_call("cudaGetDeviceProperties", 1, cudaErrorUnknown); // after list_devices()
    CHECK_THROWS_WITH_AS(cuda_backend().open(0, open_options()), "cuda:0: unknown error (cudaErrorUnknown)",
                         DeviceError);
}

TEST_CASE("a call that the driver refuses is told with the card and what it did") {
    const Mended mended;
    struct Case {
        Failure failure;
        const char* doing;
    };
    const Case cases[] = {{{"cudaMemsetAsync", cudaErrorUnknown}, "allocating 64 bytes"},
                          {{"cudaHostGetDevicePointer", cudaErrorUnknown}, "allocating 64 bytes"},
                          {{"cudaGraphCreate", cudaErrorUnknown}, "recording"},
                          {{"cudaGraphAddMemcpyNode1D", cudaErrorInvalidValue}, "recording"},
                          {{"cudaGraphAddEventRecordNode", cudaErrorUnknown}, "recording"},
                          {{"cudaGraphInstantiate", cudaErrorUnknown}, "recording"},
                          {{"cudaGraphLaunch", cudaErrorLaunchFailure}, "submitting"},
                          {{"cudaStreamWaitEvent", cudaErrorUnknown}, "submitting"},
                          {{"cudaEventRecord", cudaErrorUnknown}, "submitting"},
                          {{"cudaEventSynchronize", cudaErrorIllegalAddress}, "running"},
                          {{"cudaEventElapsedTime", cudaErrorUnknown}, "reading timestamps"},
                          {{"cudaMemGetInfo", cudaErrorUnknown}, "asking for free memory"}};
    for (const auto& [failure, doing] : cases) {
        const auto& [function, error] = failure;
        CAPTURE(function);
        const auto device = open_device("cuda:0", open_options());
        emulated::fail_call(function, 1, error);
        const std::string message =
            fmt::format("cuda:0 ({}): {}: {}", device->info().name, doing, cudaGetErrorString(error));
        CHECK_THROWS_WITH_AS(use(*device), doctest::Contains(message.c_str()), DeviceError);
        emulated::mend();
    }
}

TEST_CASE("no memory, on the card or the host, can be tried again with less") {
    const Mended mended;
    const auto device = open_device("cuda:0", open_options());
    for (const auto& [function, memory] :
         {std::pair{"cudaMalloc", Memory::device}, {"cudaHostAlloc", Memory::staging}}) {
        constexpr std::size_t much = std::size_t(40) << 20; // more than the pool keeps
        emulated::fail_call(function, 1, cudaErrorMemoryAllocation);
        CHECK_THROWS_AS(device->allocate(much, memory), OutOfMemory);
        CHECK(device->allocate(much, memory).address() != 0);
    }
    use(*device);
}

TEST_CASE("a card that its driver took away is lost, and every further call too, but it can be closed") {
    const Mended mended;
    auto device = open_device("cuda:0", open_options());
    std::unique_ptr<Device> other;
    if (listing().devices.size() > 1) other = open_device("cuda:1", open_options());
    emulated::fail_call("cudaEventSynchronize", 2, cudaErrorLaunchTimeout);
    CHECK_THROWS_AS(use(*device), DeviceLost);
    CHECK_THROWS_AS(device->free_memory(), DeviceLost);
    if (other) use(*other);
    device.reset();
}

TEST_CASE("timestamps follow the clock, however long a card is open") {
    const auto device = open_device("cuda:0", open_options());
    const Command commands[] = {Timestamp{}};
    const Recording recording = device->record(commands);
    const auto moment = [&] {
        device->wait(device->submit(recording));
        return device->timestamps(recording).at(0);
    };
    for (const int seconds : {1, 5, 100'000, 3}) {
        const double before = moment();
        emulated::let_time_pass(std::chrono::seconds(seconds));
        const double passed = moment() - before;
        CHECK(passed > seconds * (1 - 1e-7)); // a float of the time that passed
        CHECK(passed < seconds + 1);
    }
}

TEST_CASE("every kernel and tile has a function of its own, and no other tile has any") {
    std::set<const void*> functions;
    std::size_t count = 0;
    const auto add = [&](const void* function) {
        CHECK(function != nullptr);
        functions.insert(function);
        ++count;
    };
    for (const Variant& variant : gpu_variants()) {
        if (variant.stages != nullptr) continue; // its launches have functions
        const bool is_tiled = kernel_info(variant.kernel).item == Item::tile;
        const bool by_fragments = variant.source == KernelSource::fragments;
        const std::span<const Tile> tiles_of_source = by_fragments ? std::span<const Tile>(fragment_tiles)
                                                      : variant.source == KernelSource::quads
                                                          ? std::span<const Tile>(quad_tiles)
                                                          : std::span<const Tile>(tiles);
        const auto function = [&](const std::optional<Tile>& tile, Precision operands = Precision::fp32) {
            return cuda::function_of(variant.kernel, variant.source, tile, operands);
        };
        if (!is_tiled) add(function({}));
        if (!is_tiled) continue;
        for (const Tile& tile : tiles_of_source)
            for (const Precision operands : all_precisions)
                if (by_fragments || operands == Precision::fp32) add(function(tile, operands));
        CHECK(function(Tile{.height = 7, .width = 7, .threads = 256}) == nullptr);
    }
    CHECK(functions.size() == count);
}
