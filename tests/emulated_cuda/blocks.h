// Runs the blocks of a kernel.
#pragma once

#include "tests/emulated_cuda/kernel_list.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated {

/// Runs all blocks one after the other, in random order, on the calling thread. The threads of a block take
/// turns as fibers: they begin, and go on after a barrier or a shuffle, in random order; in some blocks one
/// warp after the other goes on as far as it can. Shared memory begins
/// with NaN. Ends the program when the threads of a block do not all reach a barrier, or the lanes of a warp
/// a shuffle.
void run_blocks(const Kernel& kernel, const std::byte* parameters, unsigned blocks, unsigned threads);

/// Barriers that all blocks together have passed so far. A block of a product by quads passes one for each
/// slice that it multiplies, and one more for its tile.
std::uint64_t passed_barriers();

/// The random numbers that decide about orders; TOWERS_EMULATED_CUDA_SEED chooses them.
class Random {
public:
    Random();
    /// Below `end`.
    std::size_t below(std::size_t end);

private:
    std::uint64_t state_;
};

/// `kernel NAME, block 3 of 7, thread 5` that runs; "" on other threads than that which runs kernels.
std::string running_thread();

/// Ends the program: the CUDA device would do something undefined.
[[noreturn]] void fail(const std::string& what);

} // namespace emulated
