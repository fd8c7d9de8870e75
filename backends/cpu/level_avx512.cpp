#include "backends/cpu/implicit_gemm_kernels.h"
#include "backends/cpu/level.h"
#include "backends/cpu/winograd_kernels.h"

const towers::LevelCode towers::level_avx512{
    winograd_code, {implicit_forward, implicit_gradient}, 4}; // at 16 oneDNN is near the peak
