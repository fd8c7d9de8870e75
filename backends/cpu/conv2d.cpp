#include "backends/cpu/host_kernels.h"
#include "backends/cpu/onednn_conv2d.h"

#include <algorithm>
#include <memory>
#include <omp.h>
#include <optional>
#include <span>
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

/// Weights in a primitive's layout and type: the engine's own if these agree, else a reordered copy.
class Weights {
public:
    Weights(CpuContext& context, const memory::desc& user, const memory::desc& wanted,
            const Rounding& rounding, const float* data)
        : own_(tensor(context, user, data)) {
        if (rounding.operands != Precision::fp32 && !rounding.units) {
            exact_ = {data, user.get_size() / sizeof(float)};
            operands_ = rounding.operands;
            rounded_ = HostMemory("cpu", user.get_size(), context.guarded);
            own_ = memory(user, context.engine, rounded_.data());
        }
        if (wanted == user) return;
        copy_ = HostMemory("cpu", wanted.get_size(), context.guarded);
        const memory theirs = std::exchange(own_, memory(wanted, context.engine, copy_.data()));
        in_.emplace(reorder(context, theirs, own_));
    }
    const memory& wanted() const { return own_; }
    void load() {
        round_all(exact_, operands_, reinterpret_cast<float*>(rounded_.data()));
        if (in_) (*in_)();
    }

private:
    HostMemory copy_, rounded_;
    memory own_;
    std::optional<Execution> in_;
    std::span<const float> exact_ = {}; ///< those to round without units for it; empty: none
    Precision operands_ = Precision::fp32;
};

/// oneDNN's own ReLU, fused into the product, would turn a NaN into zero and hide a divergence.
void relu_in_place(float* y, std::size_t count, unsigned threads) {
#pragma omp parallel for simd num_threads(int(threads))
    for (std::size_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
}

/// A product of a factor and weights, and what it needs to run
class Product {
public:
    template<class Primitive, class Description>
    static Product of(CpuContext& context, const Description& description, Factor factor,
                      std::shared_ptr<Weights> weights, std::unordered_map<int, memory> arguments) {
        return {context, std::move(factor), std::move(weights),
                Execution(context, description, Primitive(description), std::move(arguments))};
    }
    /// `tensor`: the factor
    void run(const float* tensor) {
        weights_->load();
        factor_.load(tensor, scratch_.bytes());
        product_.run(context_->stream, scratch_.bytes() + factor_.scratch_bytes());
    }

private:
    Product(CpuContext& context, Factor factor, std::shared_ptr<Weights> weights, Execution product)
        : context_(&context), factor_(std::move(factor)), weights_(std::move(weights)),
          product_(std::move(product)),
          scratch_(context, factor_.scratch_bytes() + product_.scratch_bytes()) {}

    CpuContext* context_;
    Factor factor_;
    std::shared_ptr<Weights> weights_;
    Execution product_;
    Scratch scratch_;
};

template<class Primitive, class Description>
Work forward(CpuContext& context, const Described& d, const Description& description,
             const Rounding& rounding, const Conv2dForwardParams& p) {
    auto weights = std::make_shared<Weights>(context, d.w_user, description.weights_desc(), rounding, p.w.at);
    Factor x(context, d.x_user, d.x, rounding);
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, x.wanted()},
                                              {DNNL_ARG_WEIGHTS, weights->wanted()},
                                              {DNNL_ARG_DST, tensor(context, d.y_user, p.y.at)}};
    if (p.bias != 0) arguments[DNNL_ARG_BIAS] = tensor(context, d.b, p.b.at);
    auto product =
        Product::of<Primitive>(context, description, std::move(x), std::move(weights), std::move(arguments));
    const std::size_t count =
        std::size_t(p.shape.batch) * p.shape.out_height * p.shape.out_width * p.shape.out_channels;
    return [&context, product, x = p.x.at, y = p.y.at, count, relu = p.relu != 0]() mutable {
        product.run(x);
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
                   const Rounding& rounding, const Conv2dBackwardDataParams& p) {
    auto weights = std::make_shared<Weights>(context, d.w_user, description.weights_desc(), rounding, p.w.at);
    Factor dy(context, d.y_user, d.dy, rounding);
    auto product = Product::of<Primitive>(context, description, dy, weights,
                                          {{DNNL_ARG_DIFF_DST, dy.wanted()},
                                           {DNNL_ARG_WEIGHTS, weights->wanted()},
                                           {DNNL_ARG_DIFF_SRC, tensor(context, d.x_user, p.dx.at)}});
    return masked(context, p, [product, dy = p.dy.at]() mutable { product.run(dy); });
}

/// The data gradient of a convolution without stride, as a convolution of dy with the mirrored weights. None
/// if the padding exceeds the kernel's reach.
std::optional<Described> mirrored(const ConvShape& s, const Rounding& rounding) {
    if (s.stride_y != 1 || s.stride_x != 1 || s.groups != 1) return std::nullopt;
    const memory::dim n = s.batch, i = s.in_channels, o = s.out_channels;
    const memory::dims reach = reach_of(s);
    const memory::dim from_top = reach[0] - s.pad_top, from_left = reach[1] - s.pad_left;
    Described d;
    d.dense = false;
    const memory::dims x{n, o, s.out_height, s.out_width}, weights{i, o, s.kernel_height, s.kernel_width};
    d.x = {x, rounding.type(), Tag::nhwc};
    d.x_user = described(x, Tag::nhwc);
    d.w_user = memory::desc(weights, memory::data_type::f32, {o, 1, s.kernel_width * i * o, i * o});
    d.w_any = {weights, rounding.type(), Tag::any};
    d.y_user = described({n, i, s.in_height, s.in_width}, Tag::nhwc);
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
                            const Rounding& rounding, const Conv2dBackwardDataParams& p) {
    const std::size_t taps = std::size_t(p.shape.kernel_height) * p.shape.kernel_width;
    const std::size_t of_tap = std::size_t(p.shape.in_channels) * p.shape.out_channels;
    auto turned = std::make_shared<HostMemory>("cpu", taps * of_tap * sizeof(float), context.guarded);
    float* const mirror = reinterpret_cast<float*>(turned->data());
    auto weights = std::make_shared<Weights>(context, d.w_user, description.weights_desc(), rounding, mirror);
    Factor dy(context, d.x_user, d.x, rounding);
    auto product =
        Product::of<dnnl::convolution_forward>(context, description, dy, weights,
                                               {{DNNL_ARG_SRC, dy.wanted()},
                                                {DNNL_ARG_WEIGHTS, weights->wanted()},
                                                {DNNL_ARG_DST, tensor(context, d.y_user, p.dx.at)}});
    return masked(context, p, [w = p.w.at, dy = p.dy.at, taps, of_tap, turned, mirror, product]() mutable {
        for (std::size_t tap = 0; tap < taps; ++tap)
            std::copy_n(w + tap * of_tap, of_tap, mirror + (taps - 1 - tap) * of_tap);
        product.run(dy);
    });
}

} // namespace

Work conv2d_forward(CpuContext& context, const Launch& launch, const Rounding& rounding) {
    const auto p = launch.parameters.as<Conv2dForwardParams>();
    const Described d = descriptors(p.shape, p.bias != 0, rounding);
    if (d.dense)
        return forward<dnnl::inner_product_forward>(context, d, describe_dense_forward(context, d, d.y_user),
                                                    rounding, p);
    return forward<dnnl::convolution_forward>(context, d, describe_conv_forward(context, d, d.y_user),
                                              rounding, p);
}

Work conv2d_backward_data(CpuContext& context, const Launch& launch, const Rounding& rounding) {
    using dnnl::convolution_backward_data, dnnl::inner_product_backward_data;
    const auto p = launch.parameters.as<Conv2dBackwardDataParams>();
    const Described d = descriptors(p.shape, true, rounding);
    if (d.dense)
        return backward_data<inner_product_backward_data>(
            context, d,
            describe_backward<inner_product_backward_data>(context, describe_dense_forward(context, d, d.dy),
                                                           d.x_user, d.w_any, d.dy),
            rounding, p);
    const auto backward = describe_backward<convolution_backward_data>(
        context, describe_conv_forward(context, d, d.dy), dnnl::algorithm::convolution_direct, d.x_user,
        d.w_any, d.dy, d.strides, d.gaps, d.pads_before, d.pads_after);
    if (const std::optional<Described> m = mirrored(p.shape, rounding)) {
        const auto forward = describe_conv_forward(context, *m, m->y_user);
        // oneDNN 2 has its newest convolutions, up to a quarter faster, only for forward.
        if (is_brgemm(forward) && !is_brgemm(backward))
            return mirrored_backward_data(context, *m, forward, rounding, p);
    }
    return backward_data<convolution_backward_data>(context, d, backward, rounding, p);
}

std::span<const CpuVariant> conv2d_overrides() {
    static constexpr CpuVariant overrides[] = {
        {{Kernel::conv2d_forward, "oneDNN", onednn_config<Conv2dForwardParams>}, in_float32<conv2d_forward>},
        {{Kernel::conv2d_backward_data, "oneDNN", onednn_config<Conv2dBackwardDataParams>},
         in_float32<conv2d_backward_data>},
        {{Kernel::depthwise_conv2d_forward, "oneDNN", onednn_config<Conv2dForwardParams>},
         in_float32<conv2d_forward>},
        {{Kernel::depthwise_conv2d_backward_data, "oneDNN", onednn_config<Conv2dBackwardDataParams>},
         in_float32<conv2d_backward_data>}};
    return overrides;
}

} // namespace towers
