#include "backends/cpu/overrides.h"

#include <vector>

namespace towers {

std::span<const CpuVariant> cpu_variants() {
    static const std::vector<CpuVariant> all = [] {
        std::vector<CpuVariant> joined;
        for (const auto part :
             {rounded_conv2d_overrides(), winograd_overrides(), implicit_gemm_overrides(),
              conv2d_gemm_overrides(), conv2d_overrides(), conv2d_weights_overrides(), max_pool_overrides(),
              lrn_overrides(), layer_norm_overrides(), average_pool_overrides(), channels_overrides(),
              dropout_overrides(), batch_norm_overrides(), batch_norm_backward_overrides(),
              reductions_overrides(), host_sources()})
            joined.insert(joined.end(), part.begin(), part.end());
        return joined;
    }();
    return all;
}

} // namespace towers
