#include "tests/support/devices.h"

#include <doctest/doctest.h>

namespace towers {

TEST_CASE("every device opens, and memory copied to it and back is unchanged") {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Device& device = test::device(id);
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
    }
}

} // namespace towers
