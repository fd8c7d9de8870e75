// The functions of graphs; see runtime.cpp.
#include "tests/emulated_cuda/blocks.h"
#include "tests/emulated_cuda/memory.h"
#include "tests/emulated_cuda/runtime.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace emulated;

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
