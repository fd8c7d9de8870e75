// The CPU backend's own kernels, better than the shared text compiled for the host.
#pragma once

#include "backends/kernels.h"

#include <dnnl.hpp>
#include <functional>

namespace towers {

/// A launch made ready to run.
using Work = std::function<void()>;

/// What overrides need: oneDNN's handles, the number of threads that a launch may use, and memory that they
/// work in.
struct CpuContext {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    unsigned threads = 1;
    /// One for all launches, since a device runs one at a time; as large as the largest of them needs.
    dnnl::memory scratchpad;
};

/// The override of a launch, or nothing where the shared text must run. `context` must outlive the work.
/// Throws dnnl::error.
Work override_conv2d_gemm(CpuContext& context, const Launch& launch); ///< asked before override_conv2d
Work override_conv2d(CpuContext& context, const Launch& launch);
Work override_max_pool(CpuContext& context, const Launch& launch);
Work override_lrn(CpuContext& context, const Launch& launch);
Work override_layer_norm(CpuContext& context, const Launch& launch);
Work override_average_pool(CpuContext& context, const Launch& launch);
Work override_channels(CpuContext& context, const Launch& launch);
Work override_dropout(CpuContext& context, const Launch& launch);
Work override_batch_norm(CpuContext& context, const Launch& launch);
Work override_batch_norm_backward(CpuContext& context, const Launch& launch);
Work override_reductions(CpuContext& context, const Launch& launch);

} // namespace towers
