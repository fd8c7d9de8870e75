#include "backends/cpu/onednn.h"
#include "backends/cpu/overrides.h"

#include <unordered_map>

// oneDNN's pooling in the engine's layout. Its workspace is the engine's own form of argmax, a byte an
// element; where it would be anything else, the shared text runs.

namespace towers {
namespace {

using dnnl::memory;

struct Described {
    memory::desc x, y, argmax;
    dnnl::pooling_forward::primitive_desc forward;
    memory::dims strides, window, pads_before, pads_after, dilation{0, 0};
    bool usable = false;
};

Described described_pool(const CpuContext& context, const PoolShape& s) {
    Described d;
    d.x = described({s.batch, s.channels, s.in_height, s.in_width}, Tag::nhwc);
    d.y = described({s.batch, s.channels, s.out_height, s.out_width}, Tag::nhwc);
    d.argmax =
        memory::desc({s.batch, s.channels, s.out_height, s.out_width}, memory::data_type::u8, Tag::nhwc);
    d.strides = {s.stride, s.stride};
    d.window = {s.window, s.window};
    d.pads_before = {s.pad_top, s.pad_left};
    const auto after = [&](unsigned out, unsigned in, unsigned before) {
        return memory::dim(out - 1) * s.stride + s.window - in - before;
    };
    d.pads_after = {after(s.out_height, s.in_height, s.pad_top), after(s.out_width, s.in_width, s.pad_left)};
    if (s.channels % 4 != 0) return d;
    d.forward =
        describe<dnnl::pooling_forward>(context, dnnl::primitive_attr{}, dnnl::prop_kind::forward_training,
                                        dnnl::algorithm::pooling_max, d.x, d.y, d.strides, d.window,
#if DNNL_VERSION_MAJOR >= 3
                                        d.dilation,
#endif
                                        d.pads_before, d.pads_after);
    d.usable = d.forward.workspace_desc() == d.argmax;
    return d;
}

Work run(CpuContext& context, const dnnl::primitive& primitive, std::unordered_map<int, memory> arguments) {
    return [&context, primitive, arguments = std::move(arguments)] {
        primitive.execute(context.stream, arguments);
    };
}

} // namespace

Work override_max_pool(CpuContext& context, const Launch& launch) {
    if (launch.kernel == Kernel::max_pool_forward) {
        const auto p = launch.parameters.as<MaxPoolForwardParams>();
        const Described d = described_pool(context, p.shape);
        if (!d.usable) return {};
        return run(context, dnnl::pooling_forward(d.forward),
                   {{DNNL_ARG_SRC, tensor(context, d.x, p.x.at)},
                    {DNNL_ARG_DST, tensor(context, d.y, p.y.at)},
                    {DNNL_ARG_WORKSPACE, tensor(context, d.argmax, p.argmax.at)}});
    }
    if (launch.kernel == Kernel::max_pool_backward) {
        const auto p = launch.parameters.as<MaxPoolBackwardParams>();
        const Described d = described_pool(context, p.shape);
        if (!d.usable) return {};
        const auto backward = describe_backward<dnnl::pooling_backward>(
            context, d.forward, dnnl::algorithm::pooling_max, d.x, d.y, d.strides, d.window,
#if DNNL_VERSION_MAJOR >= 3
            d.dilation,
#endif
            d.pads_before, d.pads_after);
        return run(context, dnnl::pooling_backward(backward),
                   {{DNNL_ARG_DIFF_DST, tensor(context, d.y, p.dy.at)},
                    {DNNL_ARG_DIFF_SRC, tensor(context, d.x, p.dx.at)},
                    {DNNL_ARG_WORKSPACE, tensor(context, d.argmax, p.argmax.at)}});
    }
    return {};
}

} // namespace towers
