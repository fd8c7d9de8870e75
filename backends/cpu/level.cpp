#include "backends/cpu/level.h"

#include <dnnl.hpp>

namespace towers {

const LevelCode* level_code() {
#if defined(__x86_64__)
    const auto has = [isa = unsigned(dnnl::get_effective_cpu_isa())](dnnl::cpu_isa wanted) {
        return (isa & unsigned(wanted)) == unsigned(wanted); // a level's bits include those of lower ones
    };
    if (has(dnnl::cpu_isa::avx512_core)) return &level_avx512;
    if (has(dnnl::cpu_isa::avx2) && __builtin_cpu_supports("fma")) return &level_avx2;
    return nullptr;
#elif defined(__aarch64__)
    return &level_neon;
#else
    return nullptr;
#endif
}

} // namespace towers
