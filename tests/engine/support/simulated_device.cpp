// The simulated device keeps the times that it is told.
#include "tests/support/simulated_device.h"

#include <array>
#include <doctest/doctest.h>
#include <functional>

namespace towers {
namespace {

constexpr std::size_t bytes = 1000;
constexpr double unit = 20;

/// A launch takes a unit, and so does a copy of `bytes` over the link.
std::unique_ptr<Device> simulated() {
    return std::make_unique<test::SimulatedDevice>(
        "simulated", [](const Launch&) { return unit; }, test::Link{unit / bytes});
}

double units_of(const std::function<void()>& work) {
    const Clock::time_point begin = Clock::now();
    work();
    return seconds_since(begin) / unit;
}

} // namespace

TEST_CASE("a simulated device computes and copies in both directions at once, each in order") {
    const test::VirtualClock clock;
    const auto device = simulated();
    const Buffer there = device->allocate(bytes, Memory::device);
    const Buffer here = device->allocate(bytes, Memory::staging);
    const Copy to{{&here, 0, bytes}, {&there, 0, bytes}}, from{{&there, 0, bytes}, {&here, 0, bytes}};
    const Copy within{{&there, 0, bytes / 2}, {&there, bytes / 2, bytes / 2}};
    const auto record = [&](const std::vector<Command>& commands) { return device->record(commands); };
    const Launch relu = launch(kernels::relu_forward, {.x = {}, .y = {}, .count = 1});
    const Recording compute = record({relu, within});
    const Recording up = record({to}), down = record({from});
    const Recording all = record({to, Barrier{}, relu, Barrier{}, from});

    const auto near = [](double units) { return doctest::Approx(units).epsilon(1e-6); };
    CHECK(units_of([&] { device->wait(device->submit(all)); }) == near(3));
    CHECK(units_of([&] {
              const std::array tickets{device->submit(compute), device->submit(up, Queue::upload),
                                       device->submit(down, Queue::download)};
              for (const Ticket ticket : tickets) device->wait(ticket);
          }) == near(1));
    CHECK(units_of([&] {
              const Ticket first = device->submit(up, Queue::upload);
              const Ticket second = device->submit(compute, Queue::compute, std::array{first});
              device->wait(device->submit(down, Queue::download, std::array{second}));
          }) == near(3));
    CHECK(units_of([&] { device->submit(compute); }) == 0);
    CHECK(units_of([&] {
              device->submit(up, Queue::upload);
              device->wait(device->submit(up, Queue::upload));
          }) == near(2));
    // A pipeline: four rounds of three parts, the parts side by side
    CHECK(units_of([&] {
              Ticket last = 0;
              for (int round = 0; round < 4; ++round) {
                  const Ticket first = device->submit(up, Queue::upload);
                  const Ticket second = device->submit(compute, Queue::compute, std::array{first});
                  last = device->submit(down, Queue::download, std::array{second});
              }
              device->wait(last);
          }) == near(6));
}

} // namespace towers
