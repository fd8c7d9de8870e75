// compile_pipelines [vulkan:INDEX]: compiles every pipeline on this Vulkan device, else on the first, and
// runs none. Prints JSON, one object a line, for compile_everywhere: the device; then each pipeline's name
// before it is compiled, and the driver's figures afterwards.
#include "backends/vulkan/compiler.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace {

void print(const nlohmann::json& line) {
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout); // the driver may abort
}

} // namespace

int main(int count, char** arguments) {
    unsigned index = 0;
    if (count > 2 || (count == 2 && std::sscanf(arguments[1], "vulkan:%u", &index) != 1)) {
        std::fprintf(stderr, "usage: compile_pipelines [vulkan:INDEX]\n");
        return 2;
    }
    try {
        towers::vulkan::Compiler compiler(index);
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
