// The CPU backend: oneDNN's kernels where it has them, else the shared kernel source compiled for the host.
#pragma once

#include "backends/backend.h"

namespace towers {

const Backend& cpu_backend();

} // namespace towers
