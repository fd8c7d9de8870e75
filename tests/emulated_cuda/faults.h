// Failures: those that the program causes, and those that a test asks for.
#pragma once

#include <chrono>
#include <cuda_runtime_api.h>

namespace emulated {

/// A fault in a kernel that runs on the calling thread is then told with the kernel, its block and thread
/// before the program ends; and one of the host with a hint.
void watch_faults_of_this_thread();

/// Lets the call number `call`, from 1, of a function from now on return an error: `cudaMalloc`. After errors
/// of memory (ECC) and of kernels (illegal address, timeout, failure) every call for that card returns the
/// same. In a program the rules (tests/support/rules.h) in TOWERS_EMULATED_CUDA_FAIL ask for it, where HOW is
/// an error's number or what misbehave() knows: `cudaGraphLaunch@card 1#3=702;cudaMalloc=hang`.
void fail_call(const char* function, unsigned call, cudaError_t error);
/// Forgets what was asked for, and lets all cards work again.
void mend();

/// What the cards and their driver say of themselves; a test may change it.
struct Claims {
    int driver = 13000;       ///< the newest CUDA that it knows
    int major = 9, minor = 0; ///< the cards' compute capability
    bool parts = false;       ///< they are parts of a card, whose UUID they have
};
Claims& claims();

/// Puts the cards' clock forward. Events record what it shows.
void let_time_pass(std::chrono::steady_clock::duration time);
std::chrono::steady_clock::time_point now();

/// The error of this call for this card, or of a call for no card (-1); cudaSuccess for none. May hang or end
/// the program instead.
cudaError_t asked_error(const char* function, int device);

} // namespace emulated
