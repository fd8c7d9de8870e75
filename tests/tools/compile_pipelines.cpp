// Compiles every pipeline on the first Vulkan device and runs none. Prints JSON, one object a line, for
// compile_everywhere: the device; then each pipeline's name before it is compiled, and the driver's figures
// afterwards.
#include "backends/vulkan/compiler.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace {

void print(const nlohmann::json& line) {
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout); // the driver may abort
}

} // namespace

int main() {
    try {
        towers::vulkan::Compiler compiler(0);
        const towers::DeviceInfo& device = compiler.device();
        print({{"device", device.name}, {"driver", device.driver}});
        for (const std::string& pipeline : compiler.pipelines()) {
            print({{"begins", pipeline}});
            nlohmann::json executables = nlohmann::json::array();
            for (const towers::vulkan::Executable& each : compiler.compile(pipeline))
                executables.push_back({{"name", each.name},
                                       {"subgroup_size", each.subgroup_size},
                                       {"statistics", each.statistics}});
            print({{"pipeline", pipeline}, {"executables", executables}});
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
