#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <algorithm>

// Dropout with the random words of many quads at once, in a loop that the compiler vectorizes. It cannot
// vectorize the shared source, in which each draw serves one quad.

namespace towers {
namespace {

using namespace dialect;
#include "shaders/example.h"
#include "shaders/philox.h"

} // namespace

FOR_EACH_PROCESSOR_LEVEL
void dropout(const DropoutParams& p, Invocation invocation) {
    constexpr uint most = 64; // quads of one example are an item
    const uint quads = (p.elements + 3) / 4;
    const uint blocks = (quads + most - 1) / most;
    const uint items = p.count / p.elements * blocks;
    for (uint i = invocation.begin(items); i < invocation.end(items); ++i) {
        const uint row = i / blocks, first = i % blocks * most;
        const Example example = example_at(p.examples, row);
        float draws[4 * most];
        INDEPENDENT
        for (uint k = 0; k < most; ++k) {
            const Words w = philox(example.record, example.epoch, DROPOUT_STREAM + p.layer, first + k,
                                   p.seed_low, p.seed_high);
            draws[4 * k] = unit(w.a);
            draws[4 * k + 1] = unit(w.b);
            draws[4 * k + 2] = unit(w.c);
            draws[4 * k + 3] = unit(w.d);
        }
        const std::size_t base = std::size_t(row) * p.elements + 4 * first;
        const uint count = std::min(4 * most, p.elements - 4 * first);
        const float* const x = p.x.at + base;
        float* const y = p.y.at + base;
        INDEPENDENT
        for (uint k = 0; k < count; ++k) {
            const float scaled = x[k] / p.keep;
            y[k] = draws[k] < p.keep ? scaled : 0.0f;
        }
    }
}

std::span<const CpuVariant> dropout_overrides() {
    static constexpr CpuVariant overrides[] = {vectorized<kernels::dropout, dropout>()};
    return overrides;
}

} // namespace towers
