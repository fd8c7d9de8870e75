#include "tests/emulated_cuda/faults.h"

#include "tests/emulated_cuda/blocks.h"
#include "tests/emulated_cuda/cards.h"
#include "tests/emulated_cuda/memory.h"
#include "tests/support/misbehave.h"
#include "tests/support/rules.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace emulated {
namespace {

towers::test::Rules& rules() {
    static auto& all = *new towers::test::Rules("TOWERS_EMULATED_CUDA_FAIL", [](const std::string& subject) {
        return subject.starts_with("cuda");
    }); // used until the program ends
    return all;
}

struct Broken {
    std::mutex mutex;
    std::map<int, cudaError_t> cards; ///< and what they return
};
Broken& broken() {
    static auto& all = *new Broken;
    return all;
}

std::atomic<std::chrono::steady_clock::duration> passed{};

/// After these, CUDA says, the process can only end.
bool breaks_card(cudaError_t error) {
    return error == cudaErrorECCUncorrectable || error == cudaErrorIllegalAddress ||
           error == cudaErrorLaunchTimeout || error == cudaErrorLaunchFailure;
}

/// What the program does at SIGSEGV and SIGBUS.
std::map<int, struct sigaction>& actions() {
    static auto& all = *new std::map<int, struct sigaction>;
    return all;
}

void on_fault(int signal, siginfo_t* info, void*) {
    // The program ends, so that functions may be called that a signal should not call.
    const std::string place = running_thread();
    if (info->si_code > 0) // not raised by misbehave()
        fmt::print(stderr, "emulated CUDA: {}: access to {}{}\n",
                   place.empty() ? "the host, perhaps by a device's address" : place, info->si_addr,
                   info->si_addr == nullptr ? ", or an address that is not aligned" : "");
    sigaction(signal, &actions()[signal], nullptr);
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
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    for (const int signal : {SIGSEGV, SIGBUS}) {
        struct sigaction before {};
        sigaction(signal, &action, &before);
        if (before.sa_sigaction != on_fault) actions()[signal] = before;
    }
}

void fail_call(const char* function, unsigned call, cudaError_t error) {
    rules().add(fmt::format("{}#{}={}", function, call, int(error)));
}

void mend() {
    rules().clear();
    const std::lock_guard lock(broken().mutex);
    broken().cards.clear();
}

Claims& claims() {
    static Claims all;
    return all;
}

void let_time_pass(std::chrono::steady_clock::duration time) { passed = passed.load() + time; }
std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now() + passed.load(); }

cudaError_t asked_error(const char* function, int device) {
    if (device >= 0) {
        const std::lock_guard lock(broken().mutex);
        const auto card = broken().cards.find(device);
        if (card != broken().cards.end()) return card->second;
    }
    for (const std::string& how :
         rules().now(function, device >= 0 ? name_of_card(visible_cards().at(std::size_t(device))) : "")) {
        if (towers::test::misbehave(how)) continue;
        const auto error = cudaError_t(std::stoi(how));
        const std::lock_guard lock(broken().mutex);
        if (device >= 0 && breaks_card(error)) broken().cards[device] = error;
        return error;
    }
    return cudaSuccess;
}

} // namespace emulated
