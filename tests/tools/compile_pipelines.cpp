// Builds every pipeline of a device and runs none: for drivers that compile for hardware that is not there.
//   compile_pipelines vulkan:0
#include "backends/backend.h"

#include <cstdio>

int main(int argc, char** argv) {
    using namespace towers;
    if (argc != 2) {
        std::fprintf(stderr, "usage: compile_pipelines DEVICE\n");
        return 2;
    }
    try {
        const std::unique_ptr<Device> device = open_device(argv[1], {});
        for (std::size_t i = 0; i < all_kernels().size(); ++i) {
            std::fprintf(stderr, "pipeline %s\n", all_kernels()[i].name);
            const Command command = Launch{Kernel(i), {}, {1, 1, 1}};
            device->record({&command, 1});
        }
        std::fprintf(stderr, "%zu kernels compiled for %s\n", all_kernels().size(), device->info().name.c_str());
    } catch (const DeviceError& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
