#include "backends/cpu/implicit_gemm_kernels.h"
#include "backends/cpu/level.h"
#include "backends/cpu/winograd_kernels.h"

const towers::LevelCode towers::level_neon{
    winograd_code, {implicit_forward, implicit_gradient}, 64}; // oneDNN has plain loops
