// Sums over all pixels of a batch, such as the gradients of weights and biases. One float32 that millions of
// pixels are added to loses digits: each addition rounds what has come together so far. So short sums are
// added up first, then sums of these.
#pragma once

#include "backends/cpu/overrides.h"

#include <cstddef>

namespace towers {

/// So many parts are added up one after another before their sum moves on into a total.
constexpr std::size_t parts_of_sum = 32;

/// total += part; part = 0
inline void move_into(float* __restrict total, float* __restrict part, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        total[i] += part[i];
        part[i] = 0.0f;
    }
}

/// db = the sum of dy over all pixels, on all threads.
void bias_gradient(const CpuContext& context, const Conv2dBackwardWeightsParams& p);

} // namespace towers
