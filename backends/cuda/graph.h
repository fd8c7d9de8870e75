// A recording as a CUDA graph: what lies between two barriers becomes parallel branches, so that copies run
// beside kernels.
#pragma once

#include "backends/cuda/runtime.h"

#include "backends/device.h"

#include <span>
#include <vector>

namespace towers::cuda {

struct CudaRecording : RecordingState {
    std::vector<Event> timestamps; // outlive the graph that records them
    GraphExec graph;
};

/// For the current device, which `info` describes. Throws RuntimeError.
std::unique_ptr<CudaRecording> build_graph(std::span<const Command> commands, const DeviceInfo& info);

} // namespace towers::cuda
