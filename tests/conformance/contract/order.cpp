// Commands of which the device knows what bytes they touch.
#include "tests/conformance/contract/contract.h"

#include <array>
#include <random>

namespace towers::test {
namespace {

/// A memory of small whole numbers, on a device and as the host expects it.
struct Mirror {
    explicit Mirror(Device& device)
        : start(device.allocate(words * sizeof(float), Memory::staging)),
          memory(device.allocate(words * sizeof(float), Memory::device)),
          end(device.allocate(words * sizeof(float), Memory::staging)) {
        for (std::size_t i = 0; i < words; ++i) expected[i] = start.host<float>()[i] = float(i % 7);
    }

    static constexpr std::size_t words = 512;
    Buffer start, memory, end;
    std::array<float, words> expected;
};

/// Adds a random slice of the memory to another one, or copies it there. `step`: of the slices' beginnings.
Command random_command(Mirror& mirror, std::mt19937& random, bool known) {
    constexpr std::size_t step = 4; // a vec4, which launches need
    const std::size_t count = step * (1 + random() % 8);
    const auto place = [&] { return step * (random() % ((Mirror::words - count) / step)); };
    const std::size_t from = place();
    std::size_t to = place();
    while (from < to + count && to < from + count) to = place();
    const bool adds = random() % 2 == 0;
    for (std::size_t i = 0; i < count; ++i) {
        float& target = mirror.expected[to + i];
        target = mirror.expected[from + i] + (adds ? target : 0);
    }
    const std::size_t size = count * sizeof(float);
    const auto slice = [&](std::size_t at) { return BufferSlice{&mirror.memory, at * sizeof(float), size}; };
    if (!adds) return Copy{slice(from), slice(to)};
    const auto tensor = [&](std::size_t at) { return Tensor{mirror.memory.address() + at * sizeof(float)}; };
    Launch sum = launch(kernels::accumulate_gradients, {tensor(from), tensor(to), unsigned(count / 4)});
    if (known) sum.extents = {size, size};
    return sum;
}

} // namespace

TEST_CASE("commands between barriers keep the order that their bytes need, whether it is known or not") {
    on_every_device([](Device& device) {
        std::mt19937 random(1);
        for (int trial = 0; trial < 20; ++trial) {
            Mirror mirror(device);
            std::vector<Command> commands{copy(mirror.start, mirror.memory)};
            for (int i = 0; i < 40; ++i) {
                commands.push_back(Barrier{});
                commands.push_back(random_command(mirror, random, trial % 4 == 0 ? i % 3 != 0 : true));
            }
            commands.push_back(Barrier{});
            commands.push_back(copy(mirror.memory, mirror.end));
            device.run(commands);
            CHECK(std::ranges::equal(mirror.end.host<float>(), mirror.expected));
        }
    });
}

} // namespace towers::test
