// Streams, events and graphs of the emulated cards. One thread does all their work: at any time the next
// thing that may run, chosen at random from those that nothing else must precede. lock() keeps it out.
#pragma once

#include "tests/emulated_cuda/kernel_list.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

namespace emulated {

/// One record of an event.
struct Record {
    bool done = false;
    std::chrono::steady_clock::time_point time = {};
};

struct EventState {
    int device;
    unsigned flags;
    std::shared_ptr<Record> last = {}; ///< null: never recorded
};

struct EmptyNode {};
struct KernelNode {
    const Kernel* kernel;
    std::array<std::byte, 128> parameters;
    unsigned blocks, threads;
};
struct CopyNode {
    std::uint64_t target, source; ///< device addresses
    std::size_t bytes;
};
struct RecordNode {
    EventState* event;
};
struct Node {
    std::vector<std::size_t> after; ///< nodes that precede it
    std::variant<EmptyNode, KernelNode, CopyNode, RecordNode> work;
};

struct GraphState {
    int device;
    std::vector<Node> nodes = {};
};
/// An executable graph.
struct ExecutableState {
    int device;
    std::vector<Node> nodes;
    unsigned launches = 0; ///< submitted and not finished
    bool runs = false;
};

struct GraphLaunch {
    ExecutableState* executable;
    std::vector<std::size_t> missing; ///< for each node, predecessors that are not done
    std::vector<std::size_t> ready;   ///< nodes
    std::size_t left;                 ///< nodes that are not done
    std::map<EventState*, std::shared_ptr<Record>> records;
};
struct RecordEvent {
    std::shared_ptr<Record> record;
};
struct WaitForEvent {
    std::shared_ptr<Record> record;
};
struct Fill {
    std::uint64_t address;
    std::size_t bytes;
    int value;
};
struct StreamState {
    int device;
    std::deque<std::variant<GraphLaunch, RecordEvent, WaitForEvent, Fill>> operations = {};
    std::chrono::steady_clock::time_point held_until = {};
};

/// Keeps the thread of the cards out, and starts it.
std::unique_lock<std::mutex> lock();

StreamState* make_stream(int device);
/// The stream must be idle.
void destroy_stream(StreamState* stream);
void submit(StreamState& stream, decltype(StreamState::operations)::value_type operation);

/// Wait, with the lock given up meanwhile.
void wait_for(std::unique_lock<std::mutex>& lock, const StreamState& stream);
void wait_for(std::unique_lock<std::mutex>& lock, const Record& record);
void wait_for_device(std::unique_lock<std::mutex>& lock, int device);

/// Launches so far of kernels that got an address of the host's memory.
unsigned launches_on_mapped_memory();

} // namespace emulated
