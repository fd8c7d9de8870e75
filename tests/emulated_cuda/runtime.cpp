// The CUDA runtime's functions, as NVIDIA documents them, on cards that processors emulate. What the
// documentation leaves undefined ends the program; what it refuses is refused.
#include "tests/emulated_cuda/blocks.h"
#include "tests/emulated_cuda/cards.h"
#include "tests/emulated_cuda/faults.h"
#include "tests/emulated_cuda/memory.h"
#include "tests/emulated_cuda/streams.h"

#include <algorithm>
#include <cstring>
#include <cuda_runtime_api.h>
#include <set>
#include <utility>

using namespace emulated;

namespace {

constexpr int version = 13000; // of the runtime
constexpr std::size_t card_memory = std::size_t(2) << 30;

thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

int card_count() { return int(visible_cards().size()); }

cudaError_t refuse(cudaError_t error) {
    last_error = error;
    return error;
}

/// The state behind a handle that is live, else null.
std::set<const void*>& handles = *new std::set<const void*>;
template<class State>
State* state_of(const void* handle) {
    return handles.contains(handle) ? static_cast<State*>(const_cast<void*>(handle)) : nullptr;
}
template<class Handle, class State>
Handle handle_of(State* state) {
    handles.insert(state);
    return reinterpret_cast<Handle>(state);
}

} // namespace

// Every function first fails as asked, then keeps the cards out.
#define BEGIN_FOR(device)                                                                                    \
    if (const cudaError_t asked = asked_error(__func__, device); asked != cudaSuccess) return refuse(asked); \
    [[maybe_unused]] auto held = lock()
#define BEGIN BEGIN_FOR(current)
#define BEGIN_FOR_NONE BEGIN_FOR(-1)
#define NEED(condition, error)                                                                               \
    if (!(condition)) return refuse(error)

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

#define ERRORS(ENTRY)                                                                                        \
    ENTRY(cudaErrorInvalidValue, "invalid argument")                                                         \
    ENTRY(cudaErrorMemoryAllocation, "out of memory")                                                        \
    ENTRY(cudaErrorInvalidConfiguration, "invalid configuration argument")                                   \
    ENTRY(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")       \
    ENTRY(cudaErrorInvalidDeviceFunction, "invalid device function")                                         \
    ENTRY(cudaErrorNoDevice, "no CUDA-capable device is detected")                                           \
    ENTRY(cudaErrorInvalidDevice, "invalid device ordinal")                                                  \
    ENTRY(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")                                  \
    ENTRY(cudaErrorInvalidResourceHandle, "invalid resource handle")                                         \
    ENTRY(cudaErrorNotReady, "device not ready")                                                             \
    ENTRY(cudaErrorIllegalAddress, "an illegal memory access was encountered")                               \
    ENTRY(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                                 \
    ENTRY(cudaErrorLaunchFailure, "unspecified launch failure")                                              \
    ENTRY(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination")  \
    ENTRY(cudaErrorCompatNotSupportedOnDevice, "forward compatibility was attempted on non supported HW")    \
    ENTRY(cudaErrorUnknown, "unknown error")

const char* cudaGetErrorName(cudaError_t error) {
#define ENTRY(name, text)                                                                                    \
    if (error == name) return #name;
    ERRORS(ENTRY)
#undef ENTRY
    return "cudaSuccess";
}

const char* cudaGetErrorString(cudaError_t error) {
#define ENTRY(name, text)                                                                                    \
    if (error == name) return text;
    ERRORS(ENTRY)
#undef ENTRY
    return "no error";
}

cudaError_t cudaDriverGetVersion(int* number) {
    BEGIN_FOR_NONE;
    *number = has_driver() ? claims().driver : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* number) {
    BEGIN_FOR_NONE;
    *number = version;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    BEGIN_FOR_NONE;
    NEED(claims().driver >= version, cudaErrorInsufficientDriver);
    NEED(card_count() > 0, cudaErrorNoDevice);
    *count = card_count();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    NEED(device >= 0 && device < card_count(), cudaErrorInvalidDevice);
    BEGIN_FOR(device);
    *properties = {};
    const int card = visible_cards()[std::size_t(device)];
    name_of_card(card).copy(properties->name, sizeof properties->name - 1);
    uuid_of_card(claims().parts ? 0 : card).copy(properties->uuid.bytes, sizeof properties->uuid.bytes);
    properties->totalGlobalMem = card_memory;
    properties->warpSize = 32;
    properties->multiProcessorCount = 3;
    properties->major = claims().major;
    properties->minor = claims().minor;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    NEED(device >= 0 && device < card_count(), cudaErrorInvalidDevice);
    current = device;
    BEGIN;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
    BEGIN;
    *all = card_memory;
    *free = card_memory - used_memory(current);
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
    BEGIN;
    NEED(find_kernel(function) != nullptr, cudaErrorInvalidDeviceFunction);
    *attributes = {};
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
    BEGIN;
    NEED(bytes <= card_memory - used_memory(current), cudaErrorMemoryAllocation);
    const Region* const region = allocate(bytes, Space::device, current);
    NEED(region != nullptr, cudaErrorMemoryAllocation);
    *pointer = reinterpret_cast<void*>(region->address);
    return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
    BEGIN;
    const Region* const region = find_region(reinterpret_cast<std::uint64_t>(pointer));
    NEED(region != nullptr && region->address == reinterpret_cast<std::uint64_t>(pointer),
         cudaErrorInvalidValue);
    wait_for_device(held, region->device);
    release(*region);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
    BEGIN;
    const Region* const region = allocate(bytes, Space::mapped, current);
    NEED(region != nullptr, cudaErrorMemoryAllocation);
    *pointer = region->data;
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** pointer, void* host, unsigned) {
    BEGIN;
    const Region* const region = find_mapped(host);
    NEED(region != nullptr, cudaErrorInvalidValue);
    *pointer = reinterpret_cast<void*>(region->address + (static_cast<std::byte*>(host) - region->data));
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
    BEGIN;
    const Region* const region = find_mapped(pointer);
    NEED(region != nullptr && region->data == pointer, cudaErrorInvalidValue);
    for (int device = 0; device < card_count(); ++device) wait_for_device(held, device);
    release(*region);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    BEGIN;
    *stream = handle_of<cudaStream_t>(make_stream(current));
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    BEGIN;
    auto* const state = state_of<StreamState>(stream);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    wait_for(held, *state);
    handles.erase(state);
    destroy_stream(state);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    BEGIN;
    const auto* const state = state_of<StreamState>(stream);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    wait_for(held, *state);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    BEGIN;
    auto* const state = state_of<StreamState>(stream);
    const auto* const awaited = state_of<EventState>(event);
    NEED(state != nullptr && awaited != nullptr, cudaErrorInvalidResourceHandle);
    if (awaited->last) submit(*state, WaitForEvent{awaited->last});
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
    BEGIN;
    auto* const state = state_of<StreamState>(stream);
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(is_device_address(address), cudaErrorInvalidValue);
    submit(*state, Fill{address, bytes, value});
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    BEGIN;
    *event = handle_of<cudaEvent_t>(new EventState{.device = current, .flags = flags});
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    BEGIN;
    const auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    handles.erase(
        state); // its records may still be awaited; its address is not used again, so that misuse shows
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    BEGIN;
    auto* const recorded = state_of<EventState>(event);
    auto* const state = state_of<StreamState>(stream);
    NEED(recorded != nullptr && state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(recorded->device == state->device, cudaErrorInvalidResourceHandle);
    recorded->last = std::make_shared<Record>();
    submit(*state, RecordEvent{recorded->last});
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    BEGIN;
    const auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    if (const std::shared_ptr<Record> record = state->last) wait_for(held, *record);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    BEGIN;
    const auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(!state->last || state->last->done, cudaErrorNotReady);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    BEGIN;
    const auto *const first = state_of<EventState>(start), *const last = state_of<EventState>(end);
    NEED(first != nullptr && last != nullptr && first->device == last->device,
         cudaErrorInvalidResourceHandle);
    NEED(first->last && last->last && ((first->flags | last->flags) & cudaEventDisableTiming) == 0,
         cudaErrorInvalidResourceHandle);
    NEED(first->last->done && last->last->done, cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(last->last->time - first->last->time).count();
    return cudaSuccess;
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
    BEGIN;
    *graph = handle_of<cudaGraph_t>(new GraphState{.device = current});
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    BEGIN;
    auto* const state = state_of<GraphState>(graph);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    handles.erase(state);
    delete state;
    return cudaSuccess;
}

namespace {

cudaError_t add_node(cudaGraphNode_t* added, cudaGraph_t graph, const cudaGraphNode_t* after,
                     std::size_t count, decltype(Node::work) work) {
    auto* const state = state_of<GraphState>(graph);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    Node node{.after = {}, .work = std::move(work)};
    for (std::size_t i = 0; i < count; ++i) { // a node's handle is its number, from 1
        const auto number = reinterpret_cast<std::uintptr_t>(after[i]);
        NEED(number >= 1 && number <= state->nodes.size(), cudaErrorInvalidValue);
        NEED(std::ranges::find(node.after, number - 1) == node.after.end(), cudaErrorInvalidValue);
        node.after.push_back(number - 1);
    }
    state->nodes.push_back(std::move(node));
    *added = reinterpret_cast<cudaGraphNode_t>(state->nodes.size());
    return cudaSuccess;
}

} // namespace

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  std::size_t count) {
    BEGIN;
    return add_node(node, graph, after, count, EmptyNode{});
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                   std::size_t count, const cudaKernelNodeParams* launch) {
    BEGIN;
    const auto& [function, grid, block, shared, parameters, extra] = *launch;
    const Kernel* const kernel = find_kernel(function);
    NEED(kernel != nullptr, cudaErrorInvalidDeviceFunction);
    const bool flat = grid.y == 1 && grid.z == 1 && block.y == 1 && block.z == 1; // as the dialect reads them
    NEED(flat && grid.x > 0 && grid.x <= 0x7fffffff && block.x > 0 && block.x <= 1024 && shared == 0,
         cudaErrorInvalidConfiguration);
    NEED(parameters != nullptr && extra == nullptr, cudaErrorInvalidValue);
    KernelNode work{.kernel = kernel, .parameters = {}, .blocks = grid.x, .threads = block.x};
    std::memcpy(work.parameters.data(), parameters[0], kernel->bytes);
    return add_node(node, graph, after, count, work);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                     std::size_t count, void* target, const void* source, std::size_t bytes,
                                     cudaMemcpyKind) {
    BEGIN;
    const CopyNode work{.target = reinterpret_cast<std::uint64_t>(target),
                        .source = reinterpret_cast<std::uint64_t>(source),
                        .bytes = bytes};
    NEED(bytes > 0, cudaErrorInvalidValue);
    // The runtime takes host addresses too, of any memory; the backend means to copy within its own.
    place_of(work.target, bytes, "a copy to");
    place_of(work.source, bytes, "a copy from");
    return add_node(node, graph, after, count, work);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* after, std::size_t count, cudaEvent_t event) {
    BEGIN;
    auto* const state = state_of<EventState>(event);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    return add_node(node, graph, after, count, RecordNode{state});
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    BEGIN;
    const auto* const state = state_of<GraphState>(graph);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(!state->nodes.empty(), cudaErrorInvalidValue);
    *executable =
        handle_of<cudaGraphExec_t>(new ExecutableState{.device = state->device, .nodes = state->nodes});
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    BEGIN;
    NEED(state_of<ExecutableState>(executable) && state_of<StreamState>(stream),
         cudaErrorInvalidResourceHandle);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    BEGIN;
    auto* const graph = state_of<ExecutableState>(executable);
    auto* const state = state_of<StreamState>(stream);
    NEED(graph != nullptr && state != nullptr, cudaErrorInvalidResourceHandle);
    NEED(graph->device == state->device, cudaErrorInvalidValue);
    GraphLaunch launch{
        .executable = graph, .missing = {}, .ready = {}, .left = graph->nodes.size(), .records = {}};
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
        const Node& node = graph->nodes[i];
        launch.missing.push_back(node.after.size());
        if (node.after.empty()) launch.ready.push_back(i);
        const auto* const record = std::get_if<RecordNode>(&node.work);
        if (record == nullptr) continue;
        if (!handles.contains(record->event)) emulated::fail("a graph records an event that is destroyed");
        record->event->last = launch.records[record->event] = std::make_shared<Record>();
    }
    ++graph->launches;
    submit(*state, std::move(launch));
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    BEGIN;
    auto* const state = state_of<ExecutableState>(executable);
    NEED(state != nullptr, cudaErrorInvalidResourceHandle);
    if (state->launches > 0) emulated::fail("a graph is destroyed before it has run");
    handles.erase(state);
    delete state;
    return cudaSuccess;
}
