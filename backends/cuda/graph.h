// A recording as a CUDA graph: its edges are those of CommandOrder, so that launches and copies run side by
// side where their bytes allow it.
#pragma once

#include "backends/cuda/runtime.h"

#include "backends/launch/lowering.h"

#include <vector>

namespace towers::cuda {

struct CudaRecording : RecordingState {
    std::unique_ptr<Allocation> scratch; ///< its own, between the stages of launches; may be null
    std::vector<Event> timestamps;       // outlive the graph that records them
    GraphExec graph;
};

/// For the current device. Throws RuntimeError.
std::unique_ptr<CudaRecording> build_graph(Lowered lowered);

} // namespace towers::cuda
