#include "engine/clock.h"
#include "tests/conformance/harness.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <thread>

namespace towers::test {

TEST_CASE("every device opens, and memory copied to it and back is unchanged") {
    on_every_device([](Device& device) {
        constexpr std::size_t count = 1031;
        Buffer source = device.allocate(count * 4, Memory::staging);
        Buffer there = device.allocate(count * 4, Memory::device);
        Buffer back = device.allocate(count * 4, Memory::staging);
        for (std::size_t i = 0; i < count; ++i)
            source.host<std::uint32_t>()[i] = std::uint32_t(i * 2654435761u);
        const Command commands[] = {Copy{{&source, 0, count * 4}, {&there, 0, count * 4}}, Barrier{},
                                    Copy{{&there, 0, count * 4}, {&back, 0, count * 4}}};
        device.run(commands);
        for (std::size_t i = 0; i < count; ++i)
            REQUIRE(back.host<std::uint32_t>()[i] == source.host<std::uint32_t>()[i]);
    });
}

TEST_CASE("a submission still does its work if its buffers and recording are destroyed first") {
    on_every_device([](Device& device) {
        constexpr std::size_t bytes = std::size_t(8) << 20, copies = 20; // takes a while
        const unsigned messages = validation_messages();
        const Buffer back = device.allocate(bytes, Memory::staging);
        Ticket ticket = 0;
        {
            const Buffer source = device.allocate(bytes, Memory::staging);
            const Buffer there = device.allocate(bytes, Memory::device);
            std::ranges::fill(source.host<std::uint32_t>(), 0x5eed);
            std::vector<Command> commands;
            for (std::size_t i = 0; i < copies; ++i) {
                commands.push_back(Copy{{&source, 0, bytes}, {&there, 0, bytes}});
                commands.push_back(Barrier{});
            }
            commands.push_back(Copy{{&there, 0, bytes}, {&back, 0, bytes}});
            ticket = device.submit(device.record(commands));
        }
        device.wait(ticket);
        CHECK(std::ranges::count(back.host<std::uint32_t>(), 0x5eed) == bytes / 4);
        CHECK(validation_messages() == messages);
    });
}

#ifndef __SANITIZE_THREAD__ // with which OpenMP has one thread
TEST_CASE("work for a few of the CPU's threads does not end the others") {
    const auto threads = [] {
        std::set<std::string> all;
        for (const auto& each : std::filesystem::directory_iterator("/proc/self/task"))
            all.insert(each.path().filename());
        return all;
    };
    std::thread([&] { // with a team of its own
        const std::set<std::string> others = threads();
        const std::unique_ptr<Device> cpu = open_device("cpu", {.threads = 4});
        const Buffer x = cpu->allocate(16384, Memory::staging), y = cpu->allocate(16384, Memory::staging);
        float *const from = x.host<float>().data(), *const to = y.host<float>().data();
        const auto run = [&](uint count) {
            const Command command[] = {launch(kernels::relu_forward, {{from}, {to}, count, 0})};
            cpu->run(command);
        };
        run(4096); // four workgroups of 256 items, each four elements
        std::set<std::string> team;
        std::ranges::set_difference(threads(), others, std::inserter(team, team.end()));
        CHECK(team.size() >= 3);
        for (const uint count : {2048u, 4096u, 3072u, 256u, 4096u}) run(count);
        CHECK(std::ranges::includes(threads(), team));
    })
        .join();
}
#endif

TEST_CASE("the validation layer reports a missing barrier, so its silence means something") {
    on_every_device([](Device& device) {
        if (!device.info().id.starts_with("vulkan:")) return;
        constexpr std::size_t bytes = 1024;
        const Buffer source = device.allocate(bytes, Memory::staging);
        const Buffer there = device.allocate(bytes, Memory::device);
        const Copy copy{{&source, 0, bytes}, {&there, 0, bytes}};
        const unsigned messages = validation_messages();
        const Command correct[] = {copy, Barrier{}, copy};
        device.run(correct);
        CHECK(validation_messages() == messages);
        std::printf("a hazard between two copies follows, as it should:\n");
        std::fflush(stdout);
        const Command racing[] = {copy, copy};
        device.run(racing);
        CHECK(validation_messages() > messages);
        expect_validation_messages(validation_messages() - messages);
    });
}

TEST_CASE("timestamps grow with the work between them and fit the host's clock") {
    on_every_device([](Device& device) {
        constexpr uint elements = 1u << 20, rows = 64;
        constexpr double least = 5e-6; // seconds; no device adds 64 million numbers faster
        const Buffer partials = device.allocate(elements * rows * sizeof(float), Memory::device);
        const Buffer sum = device.allocate(elements * sizeof(float), Memory::device);
        const SumPartialsParams p{.partials = {reinterpret_cast<const float*>(partials.address())},
                                  .sum = {reinterpret_cast<float*>(sum.address())},
                                  .parts = rows,
                                  .count = elements,
                                  .channels = elements};
        const Launch work = launch(kernels::sum_partials, p);
        const Command commands[] = {Timestamp{}, Timestamp{}, work,      Timestamp{}, work,
                                    Barrier{},   work,        Barrier{}, work,        Timestamp{}};
        const Recording recording = device.record(commands);
        for (int run = 0; run < 2; ++run) {
            const Clock::time_point before = Clock::now();
            device.wait(device.submit(recording));
            const double waited = seconds_since(before);
            const std::vector<double> seconds = device.timestamps(recording);
            if (seconds.empty()) {
                MESSAGE("has no clock");
                return;
            }
            REQUIRE(seconds.size() == 4);
            CHECK(seconds[0] <= seconds[1]);
            CHECK(seconds[2] - seconds[1] >= least);
            CHECK(seconds[3] - seconds[2] >= 3 * least);
            CHECK(seconds[3] - seconds[0] <= waited); // both hold however busy the processors are
        }
    });
}

} // namespace towers::test
