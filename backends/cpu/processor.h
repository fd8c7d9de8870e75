// What the processor is called.
#pragma once

#include <istream>
#include <string>

namespace towers {

struct Processor {
    std::string name, vendor;
};

/// From the text of /proc/cpuinfo: on x86 what the processor says of itself, on arm64 the kinds of its cores.
Processor processor_of(std::istream& cpuinfo);

} // namespace towers
