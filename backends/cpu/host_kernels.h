// The shared kernel sources as the host compiler reads them.
#pragma once

#include "backends/kernels.h"

namespace towers {

/// Runs one thread's share of a launch.
using HostKernel = void (*)(const ParameterBlock& parameters, Invocation invocation);

/// Null if the source cannot be compiled for the host.
HostKernel host_kernel(Kernel kernel);

} // namespace towers
