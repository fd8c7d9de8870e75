// The convolutions that the backend computes itself, compiled for each processor level.
#pragma once

#include "backends/cpu/implicit_gemm.h"
#include "backends/cpu/winograd.h"

namespace towers {

struct LevelCode {
    /// For F(m x m, r x r) with m of 2 and 4, r of 3 and 5; null for others.
    const WinogradCode* (*winograd)(std::size_t m, std::size_t r);
    ImplicitGemmCode implicit_gemm;
    /// Up to so many input channels it is faster than oneDNN's convolution.
    std::size_t few_channels;
};

extern const LevelCode level_avx2, level_avx512, level_neon;

/// This processor's, within oneDNN's limit (ONEDNN_MAX_CPU_ISA); null if it is older than any level.
const LevelCode* level_code();

} // namespace towers
