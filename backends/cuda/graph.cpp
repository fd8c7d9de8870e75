#include "backends/cuda/graph.h"

#include "backends/cuda/functions.h"

namespace towers::cuda {
namespace {

class Builder {
public:
    explicit Builder(const DeviceInfo& info) : info_(info) {
        cudaGraph_t graph = nullptr;
        check(cudaGraphCreate(&graph, 0));
        graph_.reset(graph);
    }

    void add(const Launch& launch) {
        ParameterBlock parameters = launch.parameters;
        void* arguments[] = {parameters.bytes.data()}; // the node keeps a copy
        cudaKernelNodeParams node{};
        node.func = const_cast<void*>(function_of(launch, info_));
        node.gridDim = {launch.groups.x, launch.groups.y, launch.groups.z};
        node.blockDim = {kernel_info(launch.kernel).workgroup_size, 1, 1};
        node.kernelParams = arguments;
        check(cudaGraphAddKernelNode(next(), graph_.get(), before_.data(), before_.size(), &node));
    }

    void add(const Copy& copy) {
        const auto at = [](const BufferSlice& slice) {
            return reinterpret_cast<std::byte*>(slice.buffer->address()) + slice.offset;
        };
        check(cudaGraphAddMemcpyNode1D(next(), graph_.get(), before_.data(), before_.size(), at(copy.target),
                                       at(copy.source), copy.source.bytes, cudaMemcpyDefault));
    }

    void add(const Barrier&) {
        if (current_.empty()) return;
        before_ = std::move(current_);
        current_.clear();
    }

    void add(const Timestamp&) {
        add(Barrier{});
        recording_->timestamps.push_back(make_event(cudaEventDefault));
        check(cudaGraphAddEventRecordNode(next(), graph_.get(), before_.data(), before_.size(),
                                          recording_->timestamps.back().get()));
        add(Barrier{});
    }

    std::unique_ptr<CudaRecording> finish() {
        if (before_.empty() && current_.empty()) // an empty recording costs a launch like any other
            check(cudaGraphAddEmptyNode(next(), graph_.get(), nullptr, 0));
        cudaGraphExec_t executable = nullptr;
        check(cudaGraphInstantiate(&executable, graph_.get(), 0));
        recording_->graph.reset(executable);
        return std::move(recording_);
    }

private:
    /// Where the next node goes; it depends on all of `before_`.
    cudaGraphNode_t* next() { return &current_.emplace_back(); }

    const DeviceInfo& info_;
    Graph graph_;
    std::vector<cudaGraphNode_t> before_, current_; ///< the nodes between the last two barriers, and since
    std::unique_ptr<CudaRecording> recording_ = std::make_unique<CudaRecording>();
};

} // namespace

std::unique_ptr<CudaRecording> build_graph(std::span<const Command> commands, const DeviceInfo& info) {
    Builder builder(info);
    for (const Command& command : commands) std::visit([&](const auto& each) { builder.add(each); }, command);
    return builder.finish();
}

} // namespace towers::cuda
