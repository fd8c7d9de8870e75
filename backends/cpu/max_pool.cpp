#include "backends/cpu/onednn.h"
#include "backends/cpu/overrides.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/versions.h"

#include <vector>

// oneDNN's pooling in the engine's layout. Its workspace usually has the form of the engine's argmax, one
// byte per element; otherwise the shared text runs.

namespace towers {
namespace {

using dnnl::memory;

struct Described {
    memory::desc x, y, argmax;
    dnnl::pooling_forward::primitive_desc forward;
    memory::dims strides, window, pads_before, pads_after, dilation{0, 0};
};

Described described_pool(const CpuContext& context, const PoolShape& s) {
    Described d;
    d.x = described({s.batch, s.channels, s.in_height, s.in_width}, Tag::nhwc);
    d.y = described({s.batch, s.channels, s.out_height, s.out_width}, Tag::nhwc);
    d.argmax =
        memory::desc({s.batch, s.channels, s.out_height, s.out_width}, memory::data_type::u8, Tag::nhwc);
    d.strides = {s.stride_y, s.stride_x};
    d.window = {s.window_height, s.window_width};
    d.pads_before = {s.pad_top, s.pad_left};
    d.pads_after = pads_after_of(s, s.window_height, s.window_width);
    d.forward = describe<dnnl::pooling_forward>(context, dnnl::prop_kind::forward_training,
                                                dnnl::algorithm::pooling_max, d.x, d.y, d.strides, d.window,
#if DNNL_VERSION_MAJOR >= 3
                                                d.dilation,
#endif
                                                d.pads_before, d.pads_after);
    return d;
}

} // namespace

/// The window's maximum, in loops along the channels that the compiler vectorizes. oneDNN's would lose a NaN
/// and so hide a divergence.
FOR_EACH_PROCESSOR_LEVEL
void max_pool_forward(const MaxPoolForwardParams& p, Invocation invocation) {
    const PoolShape& s = p.shape;
    std::vector<float> best(s.channels);
    std::vector<std::uint32_t> place(s.channels);
    const uint pixels = s.batch * s.out_height * s.out_width;
    const uint end = invocation.end(pixels);
    for (uint pixel = invocation.begin(pixels); pixel < end; ++pixel) {
        const uint column = pixel % s.out_width;
        const uint row = pixel / s.out_width % s.out_height;
        const std::size_t image = pixel / s.out_width / s.out_height;
        float* const values = best.data();
        std::uint32_t* const places = place.data();
        bool found = false;
        for (uint ky = 0; ky < s.window_height; ++ky) {
            for (uint kx = 0; kx < s.window_width; ++kx) {
                const uint y = row * s.stride_y + ky - s.pad_top;
                const uint x = column * s.stride_x + kx - s.pad_left;
                if (y >= s.in_height || x >= s.in_width) continue; // unsigned: also above and left
                const float* const in = p.x.at + ((image * s.in_height + y) * s.in_width + x) * s.channels;
                const std::uint32_t here = ky * s.window_width + kx;
                if (!found) {
                    for (uint c = 0; c < s.channels; ++c) values[c] = in[c];
                    for (uint c = 0; c < s.channels; ++c) places[c] = here;
                    found = true;
                    continue;
                }
                INDEPENDENT
                for (uint c = 0; c < s.channels; ++c) {
                    const bool wins = (in[c] > values[c]) | (in[c] != in[c]);
                    values[c] = wins ? in[c] : values[c];
                    places[c] = wins ? here : places[c];
                }
            }
        }
        float* const out = p.y.at + std::size_t(pixel) * s.channels;
        auto* const argmax = reinterpret_cast<std::uint8_t*>(p.argmax.at) + std::size_t(pixel) * s.channels;
        for (uint c = 0; c < s.channels; ++c) out[c] = values[c];
        INDEPENDENT
        for (uint c = 0; c < s.channels; ++c) argmax[c] = std::uint8_t(places[c]);
    }
}

namespace {

std::optional<Offer> offer_forward(const Launch& launch, const DeviceFacts&) {
    if (launch.parameters.as<MaxPoolForwardParams>().shape.channels % 4 != 0) return {}; // argmax has gaps
    return Offer{};
}

std::optional<Offer> offer_backward(const Launch& launch, const DeviceFacts&) {
    const auto p = launch.parameters.as<MaxPoolBackwardParams>();
    if (p.shape.channels % 4 != 0) return {};
    const Described d = described_pool(CpuContext(), p.shape);
    if (d.forward.workspace_desc() != d.argmax) return {};
    return Offer{};
}

Work max_pool_backward(CpuContext& context, const Launch& launch, const Offer&) {
    const auto p = launch.parameters.as<MaxPoolBackwardParams>();
    const Described d = described_pool(context, p.shape);
    const auto description = describe_backward<dnnl::pooling_backward>(
        context, d.forward, dnnl::algorithm::pooling_max, d.x, d.y, d.strides, d.window,
#if DNNL_VERSION_MAJOR >= 3
        d.dilation,
#endif
        d.pads_before, d.pads_after);
    return Execution(context, description, dnnl::pooling_backward(description),
                     {{DNNL_ARG_DIFF_DST, tensor(context, d.y, p.dy.at)},
                      {DNNL_ARG_DIFF_SRC, tensor(context, d.x, p.dx.at)},
                      {DNNL_ARG_WORKSPACE, tensor(context, d.argmax, p.argmax.at)}});
}

} // namespace

std::span<const CpuVariant> max_pool_overrides() {
    static constexpr CpuVariant overrides[] = {
        vectorized<kernels::max_pool_forward, max_pool_forward>(offer_forward),
        {{Kernel::max_pool_backward, "oneDNN", offer_backward}, max_pool_backward}};
    return overrides;
}

} // namespace towers
