// Convolutions, and dense layers as inner products, as oneDNN describes them. Activations and weights have
// the engine's layouts outside; inside, oneDNN chooses its own layout for the weights, which saves several
// times the cost of the reorder (conv2 of the CIFAR-10 tutorial at batch 128: 9.7 ms instead of 25.9).
#pragma once

#include "backends/cpu/onednn.h"

#include <optional>

namespace towers {

/// What a product's factors are rounded to, on their way to oneDNN.
struct Rounding {
    Precision operands = Precision::fp32;
    bool units = false; ///< whether the processor multiplies such numbers; else it multiplies float32

    dnnl::memory::data_type type() const {
        return units ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    }
};

struct Described {
    bool dense;
    /// Images, weights and the gradient of the output as factors, in the type that is multiplied
    dnnl::memory::desc x, w_any, dy;
    /// The same and the bias in float32, as a launch has them; b: zero if there is no bias
    dnnl::memory::desc x_user, w_user, w_user_any, b, y_user;
    dnnl::memory::dims strides, gaps, pads_before, pads_after; ///< gaps: dilation as oneDNN counts it, from 0
};

Described descriptors(const ConvShape& s, bool bias, const Rounding& rounding);

/// A factor of a product, rounded as the launch says, in scratch memory; in float32 the tensor itself.
class Factor {
public:
    /// `user`: of the tensor, `wanted`: of what is multiplied
    Factor(CpuContext& context, const dnnl::memory::desc& user, const dnnl::memory::desc& wanted,
           const Rounding& rounding);
    /// An argument of the product. Where it is, load() says.
    const dnnl::memory& wanted() const { return wanted_; }
    std::size_t scratch_bytes() const;
    /// `scratch`: so many bytes, which hold it until the product is done
    void load(const float* tensor, std::byte* scratch);

private:
    CpuContext* context_;
    Precision operands_;
    dnnl::memory user_, wanted_;
    std::optional<Execution> narrow_; ///< where there are units for the type
};

/// From a window's first pixel to its last.
dnnl::memory::dims reach_of(const ConvShape& s);
dnnl::memory::dims gaps_of(const ConvShape& s);

/// `y`: of the type in which the results are wanted; of a hint for a gradient, the gradient's.
inline auto describe_conv_forward(const CpuContext& context, const Described& d,
                                  const dnnl::memory::desc& y) {
    return describe<dnnl::convolution_forward>(context, dnnl::prop_kind::forward_training,
                                               dnnl::algorithm::convolution_direct, d.x, d.w_any, d.b, y,
                                               d.strides, d.gaps, d.pads_before, d.pads_after);
}

inline auto describe_dense_forward(const CpuContext& context, const Described& d,
                                   const dnnl::memory::desc& y) {
    return describe<dnnl::inner_product_forward>(context, dnnl::prop_kind::forward_training, d.x, d.w_any,
                                                 d.b, y);
}

/// Takes every launch.
template<class Params>
std::optional<LaunchConfig> onednn_config(const Launch& launch, const DeviceFacts&) {
    return LaunchConfig{.cost = multiplications(launch.parameters.as<Params>().shape, false)};
}

/// By oneDNN, rounded or in float32. Without units for the type it takes every launch.
Work conv2d_forward(CpuContext& context, const Launch& launch, const Rounding& rounding);
Work conv2d_backward_data(CpuContext& context, const Launch& launch, const Rounding& rounding);
Work conv2d_backward_weights(CpuContext& context, const Launch& launch, const Rounding& rounding);

/// CpuVariant::prepare of one of these
template<auto work>
Work in_float32(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    return work(context, launch, {});
}

/// Copies weights into another layout.
Execution reorder(CpuContext& context, const dnnl::memory& from, const dnnl::memory& to);

} // namespace towers
