// The CUDA backend: the shared kernel source, compiled by nvcc, on NVIDIA GPUs of compute capability 7.5 and
// newer. A program built without the CUDA Toolkit lists it as absent.
#pragma once

#include "backends/backend.h"

namespace towers {

const Backend& cuda_backend();

} // namespace towers
