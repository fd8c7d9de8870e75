#include "backends/cpu/winograd_kernels.h"

const towers::WinogradCode* towers::winograd_avx2(std::size_t m, std::size_t r) {
    return winograd_code(m, r);
}
