#include "backends/cuda/graph.h"

#include "backends/cuda/functions.h"
#include "backends/driver_call.h"

#include <utility>

namespace towers::cuda {
namespace {

using Nodes = std::vector<cudaGraphNode_t>;

class Builder {
public:
    explicit Builder(std::unique_ptr<Allocation> scratch) {
        recording_->scratch = std::move(scratch);
        cudaGraph_t graph = nullptr;
        check(cudaGraphCreate(&graph, 0));
        graph_.reset(graph);
    }

    void add(const LoweredLaunch& launch) {
        Nodes after = before(footprint_of(launch));
        for (const Stage& stage : launch.staged.stages) {
            Nodes nodes;
            for (const StageLaunch& each : stage) nodes.push_back(add(each, after));
            after = std::move(nodes);
        }
        last_.push_back(std::move(after));
    }

    void add(const Copy& copy) {
        const auto at = [](const BufferSlice& slice) { return reinterpret_cast<void*>(slice.address()); };
        const Nodes after = before(footprint_of(copy));
        cudaGraphNode_t node = nullptr;
        check(cudaGraphAddMemcpyNode1D(&node, graph_.get(), after.data(), after.size(), at(copy.target),
                                       at(copy.source), copy.source.bytes, cudaMemcpyDefault));
        last_.push_back({node});
    }

    void add(const Barrier&) { order_.barrier(); }

    void add(const Timestamp&) {
        add(Barrier{});
        recording_->timestamps.push_back(make_event(cudaEventDefault));
        const Nodes after = before({.bytes = {}, .known = false});
        cudaGraphNode_t node = nullptr;
        check(cudaGraphAddEventRecordNode(&node, graph_.get(), after.data(), after.size(),
                                          recording_->timestamps.back().get()));
        last_.push_back({node});
        add(Barrier{});
    }

    std::unique_ptr<CudaRecording> finish() {
        cudaGraphNode_t node = nullptr;
        if (last_.empty()) // an empty recording costs a launch like any other
            check(cudaGraphAddEmptyNode(&node, graph_.get(), nullptr, 0));
        cudaGraphExec_t executable = nullptr;
        const DriverCall call("cudaGraphInstantiate");
        check(cudaGraphInstantiate(&executable, graph_.get(), 0));
        recording_->graph.reset(executable);
        return std::move(recording_);
    }

private:
    /// Adds a node that depends on the given nodes.
    cudaGraphNode_t add(const StageLaunch& each, const Nodes& after) {
        const auto& [launch, source, config] = each;
        ParameterBlock parameters = launch.parameters;
        void* arguments[] = {parameters.bytes.data()}; // the node keeps a copy
        cudaKernelNodeParams node{};
        node.func = const_cast<void*>(function_of(launch.kernel, source, config.tile, config.operands));
        node.gridDim = {config.groups.x, config.groups.y, config.groups.z};
        node.blockDim = {config.tile ? config.tile->threads : kernel_info(launch.kernel).workgroup_size, 1,
                         1};
        node.kernelParams = arguments;
        cudaGraphNode_t added = nullptr;
        check(cudaGraphAddKernelNode(&added, graph_.get(), after.data(), after.size(), &node));
        return added;
    }

    /// The nodes that the next command's first one depends on.
    Nodes before(Footprint footprint) {
        const std::vector<std::size_t> commands = order_.add(std::move(footprint));
        Nodes nodes;
        for (const std::size_t command : commands)
            nodes.insert(nodes.end(), last_[command].begin(), last_[command].end());
        return nodes;
    }

    Graph graph_;
    CommandOrder order_;
    std::vector<Nodes> last_; ///< by command: the nodes with which it ends
    std::unique_ptr<CudaRecording> recording_ = std::make_unique<CudaRecording>();
};

} // namespace

std::unique_ptr<CudaRecording> build_graph(Lowered lowered) {
    Builder builder(std::move(lowered.scratch));
    for (const LoweredCommand& command : lowered.commands)
        std::visit([&](const auto& each) { builder.add(each); }, command);
    return builder.finish();
}

} // namespace towers::cuda
