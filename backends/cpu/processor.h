// The processor's name.
#pragma once

#include <istream>
#include <string>

namespace towers {

struct Processor {
    std::string name, vendor;
};

/// The name from the text of /proc/cpuinfo: on x86 the model name, on arm64 the kinds of cores.
Processor processor_of(std::istream& cpuinfo);
/// The one that this program runs on; read once.
const Processor& this_processor();

} // namespace towers
