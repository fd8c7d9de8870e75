#include "backends/cuda/graph.h"

#include "backends/cuda/functions.h"
#include "backends/stages.h"

namespace towers::cuda {
namespace {

class Builder {
public:
    Builder(const DeviceFacts& facts, std::unique_ptr<Allocation> scratch) : facts_(facts) {
        recording_->scratch = std::move(scratch);
        cudaGraph_t graph = nullptr;
        check(cudaGraphCreate(&graph, 0));
        graph_.reset(graph);
    }

    void add(const Launch& launch) {
        const std::uint64_t scratch = recording_->scratch ? recording_->scratch->address : 0;
        const auto chosen = choose(variants(), launch, facts_);
        const StagedLaunch staged =
            stages_of(*chosen.variant, launch, chosen.offer, facts_, scratch + scratch_used_);
        scratch_used_ += staged.scratch_bytes;
        std::vector<cudaGraphNode_t> after = before_;
        for (const Stage& stage : staged.stages) {
            std::vector<cudaGraphNode_t> nodes;
            for (const StageLaunch& each : stage) nodes.push_back(add(each, after));
            after = std::move(nodes);
        }
    }

    void add(const Copy& copy) {
        const auto at = [](const BufferSlice& slice) {
            return reinterpret_cast<std::byte*>(slice.buffer->address()) + slice.offset;
        };
        check(cudaGraphAddMemcpyNode1D(next(), graph_.get(), before_.data(), before_.size(), at(copy.target),
                                       at(copy.source), copy.source.bytes, cudaMemcpyDefault));
    }

    void add(const Barrier&) {
        scratch_used_ = 0;
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
    /// Adds a node that depends on the given nodes.
    cudaGraphNode_t add(const StageLaunch& each, const std::vector<cudaGraphNode_t>& after) {
        const auto& [launch, variant, offer] = each;
        ParameterBlock parameters = launch.parameters;
        void* arguments[] = {parameters.bytes.data()}; // the node keeps a copy
        cudaKernelNodeParams node{};
        node.func = const_cast<void*>(variant_named(variants(), launch.kernel, variant).function(offer.tile));
        node.gridDim = {offer.groups.x, offer.groups.y, offer.groups.z};
        node.blockDim = {offer.tile ? offer.tile->threads : kernel_info(launch.kernel).workgroup_size, 1, 1};
        node.kernelParams = arguments;
        cudaGraphNode_t* const added = next();
        check(cudaGraphAddKernelNode(added, graph_.get(), after.data(), after.size(), &node));
        return *added;
    }

    /// The dependencies of the next node.
    cudaGraphNode_t* next() { return &current_.emplace_back(); }

    const DeviceFacts& facts_;
    Graph graph_;
    std::size_t scratch_used_ = 0;                  ///< since the last barrier
    std::vector<cudaGraphNode_t> before_, current_; ///< nodes between the last two barriers, and since
    std::unique_ptr<CudaRecording> recording_ = std::make_unique<CudaRecording>();
};

} // namespace

std::unique_ptr<CudaRecording> build_graph(std::span<const Command> commands, const DeviceFacts& facts,
                                           std::unique_ptr<Allocation> scratch) {
    Builder builder(facts, std::move(scratch));
    for (const Command& command : commands) std::visit([&](const auto& each) { builder.add(each); }, command);
    return builder.finish();
}

} // namespace towers::cuda
