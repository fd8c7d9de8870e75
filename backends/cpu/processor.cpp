#include "backends/cpu/processor.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {
namespace {

using Code = std::pair<std::string_view, const char*>;

// Numbers from Linux's arch/arm64/include/asm/cputype.h. The parts are ARM's own cores in today's boards and
// servers.
constexpr Code implementers[] = {{"0x41", "ARM"},      {"0x42", "Broadcom"},  {"0x43", "Cavium"},
                                 {"0x46", "Fujitsu"},  {"0x48", "HiSilicon"}, {"0x4e", "NVIDIA"},
                                 {"0x51", "Qualcomm"}, {"0x61", "Apple"},     {"0x6d", "Microsoft"},
                                 {"0xc0", "Ampere"}};
constexpr Code arm_parts[] = {{"0xd03", "Cortex-A53"},   {"0xd05", "Cortex-A55"},  {"0xd07", "Cortex-A57"},
                              {"0xd08", "Cortex-A72"},   {"0xd0b", "Cortex-A76"},  {"0xd41", "Cortex-A78"},
                              {"0xd42", "Cortex-A78AE"}, {"0xd85", "Cortex-X925"}, {"0xd87", "Cortex-A725"},
                              {"0xd0c", "Neoverse-N1"},  {"0xd49", "Neoverse-N2"}, {"0xd8e", "Neoverse-N3"},
                              {"0xd40", "Neoverse-V1"},  {"0xd4f", "Neoverse-V2"}, {"0xd84", "Neoverse-V3"},
                              {"0xd83", "Neoverse-V3AE"}};

template<std::size_t N>
std::string meaning(const Code (&codes)[N], std::string_view code, const std::string& otherwise) {
    const auto* const found = std::find_if(codes, codes + N, [&](const Code& c) { return c.first == code; });
    return found == codes + N ? otherwise : found->second;
}

} // namespace

Processor processor_of(std::istream& cpuinfo) {
    Processor processor;
    std::string implementer;
    std::vector<std::string> cores; // each kind once: many arm64 processors have fast and small ones
    for (std::string line; std::getline(cpuinfo, line);) {
        const std::size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
        const std::string value = line.substr(colon + 2);
        if (key == "model name" && processor.name.empty()) processor.name = value;
        if (key == "vendor_id" && processor.vendor.empty()) processor.vendor = value;
        if (key == "CPU implementer") {
            implementer = value;
            if (processor.vendor.empty())
                processor.vendor = meaning(implementers, value, "implementer " + value);
        }
        if (key == "CPU part") {
            const std::string part = "part " + value;
            const std::string core = implementer == "0x41" ? meaning(arm_parts, value, part) : part;
            if (std::find(cores.begin(), cores.end(), core) == cores.end()) cores.push_back(core);
        }
    }
    std::string all;
    for (const std::string& core : cores) all += (all.empty() ? "" : " + ") + core;
    if (!all.empty()) processor.name = all; // says more than "ARMv8 Processor rev 1 (v8l)"
    if (processor.name.empty()) processor.name = "processor";
    if (processor.vendor.empty()) processor.vendor = "unknown";
    return processor;
}

const Processor& this_processor() {
    static const Processor processor = [] {
        std::ifstream cpuinfo("/proc/cpuinfo");
        return processor_of(cpuinfo);
    }();
    return processor;
}

} // namespace towers
