#include "backends/cpu/processor.h"

#include <doctest/doctest.h>

#include <sstream>

namespace towers {

TEST_CASE("users see what processor they have, whichever words Linux has for it") {
    const auto read = [](const char* text) {
        std::istringstream cpuinfo(text);
        return processor_of(cpuinfo);
    };
    const Processor x86 =
        read("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\nmodel name\t: Xeon: Gold\n"
             "power management:\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n"
             "model name\t: Xeon: Gold\n");
    CHECK(x86.name == "Xeon: Gold");
    CHECK(x86.vendor == "GenuineIntel");

    const Processor raspberry_pi =
        read("processor\t: 0\nmodel name\t: ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0x41\n"
             "CPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: 0xd0b\n\n"
             "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n\n"
             "Revision\t: c04170\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n");
    CHECK(raspberry_pi.name == "Cortex-A76");
    CHECK(raspberry_pi.vendor == "ARM");

    const Processor two_kinds = read("CPU implementer\t: 0x41\nCPU part\t: 0xd87\nCPU implementer\t: 0x41\n"
                                     "CPU part\t: 0xd85\nCPU implementer\t: 0x41\nCPU part\t: 0xd87\n");
    CHECK(two_kinds.name == "Cortex-A725 + Cortex-X925");

    const Processor new_one = read("CPU implementer\t: 0x77\nCPU part\t: 0xd0b\n");
    CHECK(new_one.name == "part 0xd0b");
    CHECK(new_one.vendor == "implementer 0x77");

    CHECK(read("").name == "processor");
    CHECK(read("").vendor == "unknown");
}

} // namespace towers
