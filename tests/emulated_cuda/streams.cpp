#include "tests/emulated_cuda/streams.h"

#include "tests/emulated_cuda/blocks.h"
#include "tests/emulated_cuda/faults.h"
#include "tests/emulated_cuda/memory.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <utility>

namespace emulated {
namespace {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

// Never destroyed: the thread waits on them when the program ends.
auto& mutex = *new std::mutex;
auto &changed = *new std::condition_variable, &submitted = *new std::condition_variable;
auto& streams = *new std::vector<StreamState*>;
Random random_choice;          // with the lock held
unsigned on_mapped_memory = 0; // likewise

/// The parameters with real addresses in place of device addresses. The pointers of a block come first
/// (backends/parameter_layout.h), but how many there are the runtime does not know either.
KernelNode with_places(KernelNode node) {
    bool mapped = false;
    for (std::size_t i = 0; i < node.kernel->bytes; i += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, node.parameters.data() + i, sizeof word);
        if (!is_device_address(word)) continue;
        mapped |= space_of(word) == Space::mapped;
        // Not checked, since kernels may compute with addresses beyond an allocation if they do not use them
        const std::byte* const place = place_of(word);
        std::memcpy(node.parameters.data() + i, &place, sizeof place);
    }
    on_mapped_memory += mapped;
    return node;
}

void run(Lock& held, const KernelNode& node) {
    const KernelNode real = with_places(node);
    held.unlock();
    run_blocks(*real.kernel, real.parameters.data(), real.blocks, real.threads);
    held.lock();
}

void run(Lock& held, const CopyNode& node) {
    std::byte* const target = place_of(node.target, node.bytes, "a copy to");
    const std::byte* const source = place_of(node.source, node.bytes, "a copy from");
    held.unlock();
    std::memmove(target, source, node.bytes);
    held.lock();
}

void finish(Record& record) {
    record.time = now();
    record.done = true;
}

/// Runs a ready node of a graph. Returns whether it was the last one.
bool run_node(Lock& held, GraphLaunch& launch, std::size_t index) {
    std::erase(launch.ready, index);
    launch.executable->runs = true;
    const std::vector<Node>& nodes = launch.executable->nodes;
    const Node& node = nodes[index];
    if (const auto* kernel = std::get_if<KernelNode>(&node.work))
        run(held, *kernel);
    else if (const auto* copy = std::get_if<CopyNode>(&node.work))
        run(held, *copy);
    else if (const auto* record = std::get_if<RecordNode>(&node.work))
        finish(*launch.records.at(record->event));
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (std::ranges::find(nodes[i].after, index) != nodes[i].after.end() && --launch.missing[i] == 0)
            launch.ready.push_back(i);
    if (--launch.left > 0) return false;
    launch.executable->runs = false;
    --launch.executable->launches;
    return true;
}

/// What may run next.
struct Choice {
    StreamState* stream;
    std::optional<std::size_t> node; ///< of the graph that the stream runs
};

/// `earliest`: becomes the time when a stream that is held may go on, if that is earlier.
std::vector<Choice> find_choices(Clock::time_point& earliest) {
    std::vector<Choice> choices;
    const Clock::time_point now = Clock::now();
    for (StreamState* const stream : streams) {
        if (stream->operations.empty()) continue;
        if (stream->held_until > now) {
            earliest = std::min(earliest, stream->held_until);
            continue;
        }
        auto& operation = stream->operations.front();
        if (const auto* wait = std::get_if<WaitForEvent>(&operation); wait != nullptr && !wait->record->done)
            continue;
        if (const auto* launch = std::get_if<GraphLaunch>(&operation)) {
            const bool has_begun = launch->left < launch->executable->nodes.size();
            if (!has_begun && launch->executable->runs) continue; // a graph never runs twice at a time
            for (const std::size_t node : launch->ready) choices.push_back({stream, node});
        } else {
            choices.push_back({stream, {}});
        }
    }
    return choices;
}

/// Returns whether the operation is finished.
bool run_front(Lock& held, const Choice& choice) {
    auto& operation = choice.stream->operations.front();
    if (auto* const launch = std::get_if<GraphLaunch>(&operation))
        return run_node(held, *launch, *choice.node);
    if (const auto* record = std::get_if<RecordEvent>(&operation)) finish(*record->record);
    if (const auto* fill = std::get_if<Fill>(&operation))
        std::memset(place_of(fill->address, fill->bytes, "a memset of"), fill->value, fill->bytes);
    return true;
}

[[noreturn]] void work() {
    watch_faults_of_this_thread();
    Lock held(mutex);
    for (;;) {
        Clock::time_point earliest = Clock::time_point::max();
        const std::vector<Choice> choices = find_choices(earliest);
        if (choices.empty()) {
            if (earliest == Clock::time_point::max())
                submitted.wait(held);
            else
                submitted.wait_until(held, earliest);
            continue;
        }
        const Choice& choice = choices[random_choice.below(choices.size())];
        if (run_front(held, choice)) choice.stream->operations.pop_front();
        changed.notify_all();
    }
}

} // namespace

Lock lock() {
    static std::once_flag once;
    std::call_once(once, [] { std::thread(work).detach(); });
    return Lock(mutex);
}

StreamState* make_stream(int device) { return streams.emplace_back(new StreamState{.device = device}); }

void destroy_stream(StreamState* stream) {
    std::erase(streams, stream);
    delete stream;
}

void submit(StreamState& stream, decltype(StreamState::operations)::value_type operation) {
    // A card may be busy with other streams for a while, so what does not wait for this one gets ahead.
    constexpr std::size_t one_in = 16, most_microseconds = 2000;
    if (stream.operations.empty() && random_choice.below(one_in) == 0)
        stream.held_until = Clock::now() + std::chrono::microseconds(random_choice.below(most_microseconds));
    stream.operations.push_back(std::move(operation));
    submitted.notify_one();
}

void wait_for(Lock& held, const StreamState& stream) {
    changed.wait(held, [&] { return stream.operations.empty(); });
}

void wait_for(Lock& held, const Record& record) {
    changed.wait(held, [&] { return record.done; });
}

void wait_for_device(Lock& held, int device) {
    changed.wait(held, [&] {
        return std::ranges::all_of(streams, [&](const StreamState* stream) {
            return stream->device != device || stream->operations.empty();
        });
    });
}

unsigned launches_on_mapped_memory() {
    const Lock held = lock();
    return on_mapped_memory;
}

} // namespace emulated
