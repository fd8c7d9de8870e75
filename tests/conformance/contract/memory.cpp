// What the engine relies on in every device: its memory.
#include "tests/conformance/contract/contract.h"

#include <cstdint>
#include <numeric>

namespace towers::test {

TEST_CASE("new memory is zero for every queue, even if it was used before") {
    on_every_device([](Device& device) {
        for (const std::size_t size : {std::size_t(4), std::size_t(4100), std::size_t(3) << 20})
            for (std::size_t round = 0; round < queue_count; ++round) {
                INFO(size, " bytes, round ", round);
                const Buffer there = device.allocate(size, Memory::device);
                const Buffer out = device.allocate(size, Memory::staging);
                CHECK(holds(out, 0));
                std::ranges::fill(out.host<std::uint32_t>(), 1u);
                const Recording take = record(device, {copy(there, out)});
                device.wait(device.submit(take, Queue(round)));
                CHECK(holds(out, 0));
                std::ranges::fill(out.host<std::uint32_t>(), 0xdeadbeefu);
                device.run(std::vector<Command>{copy(out, there)});
            }
        CHECK(device.allocate(0, Memory::device).bytes() == 0);
        CHECK(device.allocate(5, Memory::staging).host<std::byte>().size() == 5);
    });
}

TEST_CASE("a copy takes any number of bytes from anywhere to anywhere and touches no others") {
    on_every_device([](Device& device) {
        const Buffer in = device.allocate(300, Memory::staging), out = device.allocate(300, Memory::staging);
        const Buffer there = device.allocate(300, Memory::device);
        std::iota(in.host<std::uint8_t>().begin(), in.host<std::uint8_t>().end(), std::uint8_t(1));
        for (const std::size_t from : {0, 1, 3, 130})
            for (const std::size_t to : {0, 2, 5, 129})
                for (const std::size_t size : {1, 2, 7, 64, 127}) {
                    INFO(size, " bytes from ", from, " to ", to);
                    std::ranges::fill(out.host<std::uint8_t>(), std::uint8_t(0xaa));
                    device.run(std::vector<Command>{copy(out, there), Barrier{},
                                                    Copy{{&in, from, size}, {&there, to, size}}, Barrier{},
                                                    copy(there, out)});
                    std::vector<std::uint8_t> expected(300, 0xaa);
                    std::copy_n(in.host<std::uint8_t>().begin() + std::ptrdiff_t(from), size,
                                expected.begin() + std::ptrdiff_t(to));
                    const bool same = std::ranges::equal(out.host<std::uint8_t>(), expected);
                    CHECK(same);
                }
        // Within one buffer, side by side
        device.run(std::vector<Command>{copy(in, there), Barrier{},
                                        Copy{{&there, 0, 100}, {&there, 100, 100}}, Barrier{},
                                        copy(there, out)});
        CHECK(out.host<std::uint8_t>()[100] == 1);
        CHECK(out.host<std::uint8_t>()[199] == 100);
    });
}

TEST_CASE("buffers and recordings may be destroyed in any order while work is in flight") {
    on_every_device([](Device& device) {
        constexpr std::size_t much = std::size_t(1) << 20;
        for (const bool recording_first : {true, false}) {
            auto source = std::make_unique<Buffer>(staged(device, 3, much));
            auto target = std::make_unique<Buffer>(device.allocate(much, Memory::device));
            const Buffer out = staged(device, 0, much);
            std::vector<Command> commands = long_work(*source, *target);
            commands.push_back(copy(*target, out));
            auto recording = std::make_unique<Recording>(device.record(commands));
            const Ticket ticket = device.submit(*recording);
            if (recording_first) recording.reset();
            source.reset();
            target.reset();
            recording.reset();
            device.wait(ticket);
            CHECK(holds(out, 3));
        }
    });
}

TEST_CASE("a device reports its free memory, at most what it has, or nothing") {
    on_every_device([](Device& device) {
        const std::uint64_t free = device.free_memory();
        if (free == Device::not_told) return;
        CHECK(free > 0);
        CHECK(free <= device.info().memory);
    });
}

TEST_CASE("a device still works after it has refused memory") {
    on_every_device([](Device& device) {
#ifdef __SANITIZE_ADDRESS__ // the sanitizer ends the program instead
        if (device.info().id == "cpu") return;
#endif
        const std::string message =
            message_of<OutOfMemory>([&] { device.allocate(std::size_t(1) << 60, Memory::device); });
        CHECK(message.starts_with(device.info().id));
        const Buffer in = staged(device, 5), out = staged(device, 0);
        device.run(std::vector<Command>{copy(in, out)});
        CHECK(holds(out, 5));
    });
}

} // namespace towers::test
