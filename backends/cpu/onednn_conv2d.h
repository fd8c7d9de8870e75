// Convolutions, and dense layers as inner products, as oneDNN describes them. Activations and weights have
// the engine's layouts outside; inside, oneDNN chooses its own layout for the weights, which saves several
// times the cost of the reorder (conv2 of the CIFAR-10 tutorial at batch 128: 9.7 ms instead of 25.9).
#pragma once

#include "backends/cpu/onednn.h"

#include <optional>

namespace towers {

struct Described {
    bool dense;
    dnnl::memory::desc x, w_user, w_any, b, y;                 ///< b: zero if there is no bias
    dnnl::memory::dims strides, gaps, pads_before, pads_after; ///< gaps: dilation as oneDNN counts it, from 0
};

Described descriptors(const ConvShape& s, bool bias);

/// From a window's first pixel to its last.
dnnl::memory::dims reach_of(const ConvShape& s);
dnnl::memory::dims gaps_of(const ConvShape& s);

inline auto describe_conv_forward(const CpuContext& context, const Described& d) {
    return describe<dnnl::convolution_forward>(context, dnnl::prop_kind::forward_training,
                                               dnnl::algorithm::convolution_direct, d.x, d.w_any, d.b, d.y,
                                               d.strides, d.gaps, d.pads_before, d.pads_after);
}

inline auto describe_dense_forward(const CpuContext& context, const Described& d) {
    return describe<dnnl::inner_product_forward>(context, dnnl::prop_kind::forward_training, d.x, d.w_any,
                                                 d.b, d.y);
}

/// Takes every launch.
template<class Params>
std::optional<LaunchConfig> onednn_config(const Launch& launch, const DeviceFacts&) {
    return LaunchConfig{.cost = multiplications(launch.parameters.as<Params>().shape, false)};
}

/// Copies weights into another layout.
Execution reorder(CpuContext& context, const dnnl::memory& from, const dnnl::memory& to);

} // namespace towers
