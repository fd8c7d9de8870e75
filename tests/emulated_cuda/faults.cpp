#include "tests/emulated_cuda/faults.h"

#include "tests/emulated_cuda/blocks.h"
#include "tests/emulated_cuda/memory.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

namespace emulated {
namespace {

struct Asked {
    unsigned calls; ///< until it fails
    cudaError_t error;
};
struct Failures {
    std::mutex mutex;
    std::map<std::string, Asked> asked;
    std::map<int, cudaError_t> broken; ///< cards, and what they return

    Failures() {
        const char* const text = std::getenv("TOWERS_EMULATED_CUDA_FAIL");
        std::string function;
        unsigned call = 0;
        int error = 0;
        if (text != nullptr && std::istringstream(text) >> function >> call >> error)
            asked[function] = {call, cudaError_t(error)};
    }
};

Failures& failures() {
    static auto& all = *new Failures; // used until the program ends
    return all;
}

std::atomic<std::chrono::steady_clock::duration> passed{};

bool breaks_card(cudaError_t error) {
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchTimeout ||
           error == cudaErrorLaunchFailure;
}

void on_fault(int signal, siginfo_t* info, void*) {
    // The program ends, so that functions may be called that a signal should not call.
    const std::string place = running_thread();
    fmt::print(stderr, "emulated CUDA: {}: access to {}{}\n",
               place.empty() ? "the host, perhaps by a device's address" : place, info->si_addr,
               info->si_addr == nullptr ? ", or an address that is not aligned" : "");
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

} // namespace

void watch_faults_of_this_thread() {
    static auto& stack = *new std::unique_ptr<char[]>(new char[1 << 16]);
    stack_t alternate{};
    alternate.ss_sp = stack.get();
    alternate.ss_size = 1 << 16;
    sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

void fail_call(const char* function, unsigned call, cudaError_t error) {
    const std::lock_guard lock(failures().mutex);
    failures().asked[function] = {call, error};
}

void mend() {
    const std::lock_guard lock(failures().mutex);
    failures().asked.clear();
    failures().broken.clear();
}

Claims& claims() {
    static Claims all;
    return all;
}

void let_time_pass(std::chrono::steady_clock::duration time) { passed = passed.load() + time; }
std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now() + passed.load(); }

cudaError_t asked_error(const char* function, int device) {
    Failures& all = failures();
    const std::lock_guard lock(all.mutex);
    if (const auto broken = all.broken.find(device); broken != all.broken.end()) return broken->second;
    const auto asked = all.asked.find(function);
    if (asked == all.asked.end() || --asked->second.calls > 0) return cudaSuccess;
    const cudaError_t error = asked->second.error;
    all.asked.erase(asked);
    if (breaks_card(error)) all.broken[device] = error;
    return error;
}

} // namespace emulated
