// The kernels that stand in for the __global__ functions: what cudaGraphAddKernelNode() takes.
#pragma once

#include <cstddef>

namespace emulated {

struct Kernel {
    /// Enters the list of all kernels.
    Kernel(const char* kernel, unsigned block_threads, std::size_t parameter_bytes,
           void (*function)(const void* parameters));
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    const char* name;
    unsigned threads; ///< of a block, as its launch bounds say
    std::size_t bytes;
    void (*run)(const void* parameters); ///< one thread
};

/// The kernel at this address; null if none is there.
const Kernel* find_kernel(const void* address);

} // namespace emulated

/// Defines the function pointer that backends/cuda/functions.cpp looks for.
#define EMULATED_KERNEL(variable, text, Params, size)                                                        \
    const emulated::Kernel variable##_kernel{#variable, size, sizeof(Params), [](const void* parameters) {   \
                                                 text(*static_cast<const Params*>(parameters));              \
                                             }};                                                             \
    extern const void* const variable##_function;                                                            \
    const void* const variable##_function = &variable##_kernel;
