// Builds every pipeline of the first Vulkan device and runs none. For drivers that can compile for hardware
// that is not there.
#include "backends/vulkan/vulkan_backend.h"

#include <cstdio>

int main() {
    try {
        const std::size_t count = towers::vulkan_compile_all(0);
        std::printf("%zu pipelines compiled\n", count);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
