#include "backends/cpu/host_kernels.h"
#include "backends/cpu/onednn_conv2d.h"

#include <algorithm>
#include <memory>
#include <omp.h>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

// Convolutions and dense layers by oneDNN; conv2d_weights.cpp has the gradient of the weights.

namespace towers {
namespace {

using dnnl::memory;

/// Whether oneDNN would compute it as batches of small products
template<class Description>
bool is_brgemm(const Description& description) {
    return std::string_view(description.impl_info_str()).starts_with("brg");
}

/// Weights in a primitive's layout: the engine's own if the layouts agree, else a reordered copy.
class Weights {
public:
    Weights(CpuContext& context, const memory::desc& user, const memory::desc& wanted, const float* data)
        : own_(tensor(context, user, data)) {
        if (wanted == user) return;
        copy_ = HostMemory("cpu", wanted.get_size(), context.guarded);
        const memory theirs = std::exchange(own_, memory(wanted, context.engine, copy_.data()));
        in_.emplace(reorder(context, theirs, own_));
    }
    const memory& wanted() const { return own_; }
    void load() {
        if (in_) (*in_)();
    }

private:
    HostMemory copy_;
    memory own_;
    std::optional<Execution> in_;
};

/// oneDNN's own ReLU, fused into the product, would turn a NaN into zero and hide a divergence.
void relu_in_place(float* y, std::size_t count, unsigned threads) {
#pragma omp parallel for simd num_threads(int(threads))
    for (std::size_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

template<class Primitive, class Description>
Work forward(CpuContext& context, const Described& d, const Description& description,
             const Conv2dForwardParams& p) {
    auto weights = std::make_shared<Weights>(context, d.w_user, description.weights_desc(), p.w.at);
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, tensor(context, d.x, p.x.at)},
                                              {DNNL_ARG_WEIGHTS, weights->wanted()},
                                              {DNNL_ARG_DST, tensor(context, d.y, p.y.at)}};
    if (p.bias != 0) arguments[DNNL_ARG_BIAS] = tensor(context, d.b, p.b.at);
    Execution product(context, description, Primitive(description), std::move(arguments));
    const std::size_t count =
        std::size_t(p.shape.batch) * p.shape.out_height * p.shape.out_width * p.shape.out_channels;
    return [&context, weights, product, y = p.y.at, count, relu = p.relu != 0]() mutable {
        weights->load();
        product();
        if (relu) relu_in_place(y, count, context.threads);
    };
}

/// Computes a data gradient, and the mask of a ReLU if the launch includes one.
Work masked(CpuContext& context, const Conv2dBackwardDataParams& p, Work product) {
    if (p.relu == 0) return product;
    const uint count = p.shape.batch * p.shape.in_height * p.shape.in_width * p.shape.in_channels;
    const auto mask = ParameterBlock::of(ActivationBackwardParams{{p.x.at}, {p.dx.at}, {p.dx.at}, count});
    return [&context, product = std::move(product), mask] {
        product();
#pragma omp parallel num_threads(int(context.threads))
        host_kernel(Kernel::relu_backward)(mask, {uint(omp_get_thread_num()), uint(omp_get_num_threads())});
    };
}

template<class Primitive, class Description>
Work backward_data(CpuContext& context, const Described& d, const Description& description,
                   const Conv2dBackwardDataParams& p) {
    auto weights = std::make_shared<Weights>(context, d.w_user, description.weights_desc(), p.w.at);
    Execution product(context, description, Primitive(description),
                      {{DNNL_ARG_DIFF_DST, tensor(context, d.y, p.dy.at)},
                       {DNNL_ARG_WEIGHTS, weights->wanted()},
                       {DNNL_ARG_DIFF_SRC, tensor(context, d.x, p.dx.at)}});
    return masked(context, p, [weights, product]() mutable {
        weights->load();
        product();
    });
}

/// The data gradient of a convolution without stride, as a convolution of dy with the mirrored weights. None
/// if the padding exceeds the kernel's reach.
std::optional<Described> mirrored(const ConvShape& s) {
    if (s.stride_y != 1 || s.stride_x != 1 || s.groups != 1) return std::nullopt;
    const memory::dim n = s.batch, i = s.in_channels, o = s.out_channels;
    const memory::dims reach = reach_of(s);
    const memory::dim from_top = reach[0] - s.pad_top, from_left = reach[1] - s.pad_left;
    Described d;
    d.dense = false;
    d.x = described({n, o, s.out_height, s.out_width}, Tag::nhwc);
    const memory::dims weights{i, o, s.kernel_height, s.kernel_width};
    d.w_user = memory::desc(weights, memory::data_type::f32, {o, 1, s.kernel_width * i * o, i * o});
    d.w_any = described(weights, Tag::any);
    d.y = described({n, i, s.in_height, s.in_width}, Tag::nhwc);
    d.strides = {1, 1};
    d.gaps = gaps_of(s);
    d.pads_before = {from_top, from_left};
    d.pads_after = {memory::dim(s.in_height) - s.out_height + reach[0] - from_top,
                    memory::dim(s.in_width) - s.out_width + reach[1] - from_left};
    const auto negative = [](memory::dim pad) { return pad < 0; };
    if (std::ranges::any_of(d.pads_before, negative) || std::ranges::any_of(d.pads_after, negative))
        return std::nullopt;
    return d;
}

template<class Description>
Work mirrored_backward_data(CpuContext& context, const Described& d, const Description& description,
                            const Conv2dBackwardDataParams& p) {
    const std::size_t taps = std::size_t(p.shape.kernel_height) * p.shape.kernel_width;
    const std::size_t of_tap = std::size_t(p.shape.in_channels) * p.shape.out_channels;
    auto turned = std::make_shared<HostMemory>("cpu", taps * of_tap * sizeof(float), context.guarded);
    float* const mirror = reinterpret_cast<float*>(turned->data());
    auto weights = std::make_shared<Weights>(context, d.w_user, description.weights_desc(), mirror);
    Execution product(context, description, dnnl::convolution_forward(description),
                      {{DNNL_ARG_SRC, tensor(context, d.x, p.dy.at)},
                       {DNNL_ARG_WEIGHTS, weights->wanted()},
                       {DNNL_ARG_DST, tensor(context, d.y, p.dx.at)}});
    return masked(context, p, [w = p.w.at, taps, of_tap, turned, mirror, weights, product]() mutable {
        for (std::size_t tap = 0; tap < taps; ++tap)
            std::copy_n(w + tap * of_tap, of_tap, mirror + (taps - 1 - tap) * of_tap);
        weights->load();
        product();
    });
}

Work conv2d_forward(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    const auto p = launch.parameters.as<Conv2dForwardParams>();
    const Described d = descriptors(p.shape, p.bias != 0);
    if (d.dense)
        return forward<dnnl::inner_product_forward>(context, d, describe_dense_forward(context, d), p);
    return forward<dnnl::convolution_forward>(context, d, describe_conv_forward(context, d), p);
}

Work conv2d_backward_data(CpuContext& context, const Launch& launch, const LaunchConfig&) {
    using dnnl::convolution_backward_data, dnnl::inner_product_backward_data;
    const auto p = launch.parameters.as<Conv2dBackwardDataParams>();
    const Described d = descriptors(p.shape, true);
    if (d.dense)
        return backward_data<inner_product_backward_data>(
            context, d,
            describe_backward<inner_product_backward_data>(context, describe_dense_forward(context, d), d.x,
                                                           d.w_any, d.y),
            p);
    const auto backward = describe_backward<convolution_backward_data>(
        context, describe_conv_forward(context, d), dnnl::algorithm::convolution_direct, d.x, d.w_any, d.y,
        d.strides, d.gaps, d.pads_before, d.pads_after);
    if (const std::optional<Described> m = mirrored(p.shape)) {
        const auto forward = describe_conv_forward(context, *m);
        // oneDNN 2 has its newest convolutions, up to a quarter faster, only for forward.
        if (is_brgemm(forward) && !is_brgemm(backward))
            return mirrored_backward_data(context, *m, forward, p);
    }
    return backward_data<convolution_backward_data>(context, d, backward, p);
}

} // namespace

std::span<const CpuVariant> conv2d_overrides() {
    static constexpr CpuVariant overrides[] = {
        {{Kernel::conv2d_forward, "oneDNN", onednn_config<Conv2dForwardParams>}, conv2d_forward},
        {{Kernel::conv2d_backward_data, "oneDNN", onednn_config<Conv2dBackwardDataParams>},
         conv2d_backward_data},
        {{Kernel::depthwise_conv2d_forward, "oneDNN", onednn_config<Conv2dForwardParams>}, conv2d_forward},
        {{Kernel::depthwise_conv2d_backward_data, "oneDNN", onednn_config<Conv2dBackwardDataParams>},
         conv2d_backward_data}};
    return overrides;
}

} // namespace towers
