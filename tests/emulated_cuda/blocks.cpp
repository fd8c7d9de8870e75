#include "tests/emulated_cuda/blocks.h"

#include "tests/emulated_cuda/words.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

// The section of all shared variables, whose ends the linker names
extern "C" char __start_emulated_shared[] __attribute__((weak));
extern "C" char __stop_emulated_shared[] __attribute__((weak));

namespace emulated {

Place here{};

namespace {

constexpr unsigned warp_size = 32;
constexpr std::size_t stack_bytes = std::size_t(64) << 10;

enum class State : unsigned char { ready, at_barrier, at_shuffle, done };

struct Thread {
    State state;
    unsigned fiber;
    int barrier;        ///< at which it waits
    int line;           ///< of its last shuffle, or of what else a warp does together
    unsigned exchanges; ///< shuffles so far
};

/// A stack that runs one thread after the other; several while they wait.
struct Fiber {
    ucontext_t begin;
    jmp_buf stopped;
    bool has_begun = false;
    unsigned thread = 0;
};

struct Warp {
    std::uint64_t values[2][warp_size]; ///< of every other shuffle: a lane may be one ahead
    void* brought[warp_size];           ///< likewise of a meeting
    unsigned arrived;
};

struct Running {
    const Kernel* kernel = nullptr;
    const std::byte* parameters = nullptr;
    unsigned live = 0; ///< threads that have not ended
    unsigned next = 0; ///< place in `order` of the next thread to begin
    std::uint64_t passed_barriers = 0;
    std::vector<unsigned> order, ready, idle_fibers;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<std::unique_ptr<Fiber>> fibers;
    jmp_buf scheduler;
    Fiber* fiber = nullptr;
    Random random;
};
Running& running = *new Running; // never destroyed: kernels may run until the program ends
thread_local bool runs_kernels = false;

// Switching by _setjmp() and _longjmp(), because swapcontext() calls the kernel of the system each time.
void suspend() {
    if (_setjmp(running.fiber->stopped) == 0) _longjmp(running.scheduler, 1);
}

void run_threads(unsigned index) {
    for (;;) {
        while (running.next < running.order.size()) {
            const unsigned thread = running.order[running.next++];
            running.fibers[index]->thread = here.thread.x = thread;
            running.threads[thread] = {State::ready, index, 0, 0, 0};
            running.kernel->run(running.parameters);
            running.threads[running.fibers[index]->thread].state = State::done;
            --running.live;
        }
        running.idle_fibers.push_back(index);
        suspend();
    }
}

unsigned make_fiber() {
    if (!running.idle_fibers.empty()) {
        const unsigned index = running.idle_fibers.back();
        running.idle_fibers.pop_back();
        return index;
    }
    const auto page = std::size_t(sysconf(_SC_PAGESIZE));
    void* const stack =
        mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) fail("there is no memory for a stack");
    auto fiber = std::make_unique<Fiber>();
    getcontext(&fiber->begin);
    fiber->begin.uc_stack.ss_sp = stack;
    fiber->begin.uc_stack.ss_size = stack_bytes + page;
    const auto index = unsigned(running.fibers.size());
    makecontext(&fiber->begin, reinterpret_cast<void (*)()>(run_threads), 1, index);
    running.fibers.push_back(std::move(fiber));
    return index;
}

void resume(unsigned index) {
    Fiber& fiber = *running.fibers[index];
    running.fiber = &fiber;
    here.thread.x = fiber.thread;
    if (_setjmp(running.scheduler) != 0) return;
    if (fiber.has_begun) _longjmp(fiber.stopped, 1);
    fiber.has_begun = true;
    setcontext(&fiber.begin);
}

void shuffle(std::vector<unsigned>& numbers) {
    for (std::size_t i = numbers.size(); i > 1; --i)
        std::swap(numbers[i - 1], numbers[running.random.below(i)]);
}

/// A NaN as a number, also as two of 16 bits, far beyond any end as an index
void poison_shared_memory() {
    constexpr std::uint32_t poison = 0x7fad7fad;
    for (char* at = __start_emulated_shared; at + sizeof poison <= __stop_emulated_shared;
         at += sizeof poison)
        std::memcpy(at, &poison, sizeof poison);
}

/// Lets all threads go on that wait at the block's barrier; they must all be there.
void open_barrier() {
    const int barrier = running.threads.front().barrier;
    for (unsigned i = 0; i < running.threads.size(); ++i) {
        const Thread& thread = running.threads[i];
        if (thread.state == State::done) fail("some threads have ended, others wait at a barrier");
        if (thread.state != State::at_barrier) fail("some threads wait at a barrier, others at a shuffle");
        if (thread.barrier != barrier) fail("threads wait at different barriers");
        running.ready.push_back(i);
    }
    ++running.passed_barriers;
}

void run_block() {
    poison_shared_memory();
    running.live = unsigned(running.order.size());
    running.next = 0;
    shuffle(running.order);
    for (Warp& warp : running.warps) warp.arrived = 0;
    while (running.next < running.order.size()) resume(make_fiber());
    const bool one_ahead = running.random.below(4) == 0; // whoever became ready last goes on: all of a warp
    while (running.live > 0) {
        if (running.ready.empty()) open_barrier();
        const std::size_t last = running.ready.size() - 1;
        std::swap(running.ready[one_ahead ? last : running.random.below(last + 1)], running.ready.back());
        Thread& thread = running.threads[running.ready.back()];
        running.ready.pop_back();
        thread.state = State::ready;
        resume(thread.fiber);
    }
}

/// Whether the running lane is the last one of its warp to come to this place; else it must suspend itself.
bool arrive(int line) {
    const unsigned me = here.thread.x, first = me - me % warp_size;
    Thread& thread = running.threads[me];
    thread.line = line;
    thread.state = State::at_shuffle;
    if (++running.warps[me / warp_size].arrived < warp_size) return false;
    for (unsigned i = first; i < first + warp_size; ++i)
        if (running.threads[i].line != line) fail("lanes wait at different shuffles");
    thread.state = State::ready;
    return true;
}

void go_on(Warp& warp) {
    const unsigned me = here.thread.x, first = me - me % warp_size;
    warp.arrived = 0;
    for (unsigned i = first; i < first + warp_size; ++i)
        if (i != me) running.ready.push_back(i);
}

std::unordered_map<const void*, const Kernel*>& kernels() {
    static std::unordered_map<const void*, const Kernel*> all;
    return all;
}

} // namespace

Kernel::Kernel(const char* kernel, unsigned block_threads, std::size_t parameter_bytes,
               void (*function)(const void* parameters))
    : name(kernel), threads(block_threads), bytes(parameter_bytes), run(function) {
    kernels().emplace(this, this);
}

const Kernel* find_kernel(const void* address) {
    const auto found = kernels().find(address);
    return found == kernels().end() ? nullptr : found->second;
}

void sync_threads(int site) {
    Thread& thread = running.threads[here.thread.x];
    thread.state = State::at_barrier;
    thread.barrier = site;
    suspend();
}

std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned lane_mask, int line) {
    const unsigned me = here.thread.x, lane = me % warp_size;
    Warp& warp = running.warps[me / warp_size];
    Thread& thread = running.threads[me];
    const unsigned turn = thread.exchanges++ % 2;
    if (mask != 0xffffffffu) fail("a shuffle's mask is not of the whole warp");
    warp.values[turn][lane] = value;
    if (arrive(line))
        go_on(warp);
    else
        suspend();
    return warp.values[turn][(lane ^ lane_mask) % warp_size];
}

void meet(void* brought, void (*together)(void* const by_lane[]), int line) {
    Warp& warp = running.warps[here.thread.x / warp_size];
    warp.brought[here.thread.x % warp_size] = brought;
    if (!arrive(line)) return suspend();
    together(warp.brought);
    go_on(warp);
}

void refuse_misaligned(const void* address, std::size_t bytes) {
    fail(fmt::format("a load of {} bytes at {} is not aligned", bytes, address));
}

Random::Random() {
    const char* const seed = std::getenv("TOWERS_EMULATED_CUDA_SEED");
    state_ = (seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1) * 0x9e3779b97f4a7c15u + 1;
}

std::size_t Random::below(std::size_t end) {
    state_ ^= state_ << 13; // xorshift64
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % end;
}

std::string running_thread() {
    return runs_kernels ? fmt::format("kernel {}, block {} of {}, thread {}", running.kernel->name,
                                      here.block.x, here.blocks.x, here.thread.x)
                        : "";
}

std::uint64_t passed_barriers() { return running.passed_barriers; }

void fail(const std::string& what) {
    const std::string place = running_thread();
    fmt::print(stderr, "emulated CUDA: {}{}{}\n", what, place.empty() ? "" : ": ", place);
    std::fflush(stderr);
    std::abort();
}

void run_blocks(const Kernel& kernel, const std::byte* parameters, unsigned blocks, unsigned threads) {
    if (threads != kernel.threads || threads % warp_size != 0)
        fail(fmt::format("{} has blocks of {} threads, not of {}", kernel.name, kernel.threads, threads));
    runs_kernels = true;
    running.kernel = &kernel;
    running.parameters = parameters;
    if (running.order.size() != threads) {
        running.order.resize(threads);
        for (unsigned i = 0; i < threads; ++i) running.order[i] = i;
        running.threads.resize(threads);
        running.warps.resize(threads / warp_size);
    }
    std::vector<unsigned> order(blocks);
    for (unsigned i = 0; i < blocks; ++i) order[i] = i;
    shuffle(order);
    here.threads.x = threads;
    here.blocks.x = blocks;
    for (const unsigned block : order) {
        here.block.x = block;
        run_block();
    }
    runs_kernels = false;
}

} // namespace emulated
