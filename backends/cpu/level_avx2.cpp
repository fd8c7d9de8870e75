#include "backends/cpu/implicit_gemm_kernels.h"
#include "backends/cpu/level.h"
#include "backends/cpu/winograd_kernels.h"

const towers::LevelCode towers::level_avx2{
    winograd_code, {implicit_forward, implicit_gradient}, 16}; // measured with 3 to 32 channels
