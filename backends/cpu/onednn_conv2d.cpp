#include "backends/cpu/onednn_conv2d.h"

namespace towers {
using dnnl::memory;

Execution reorder(CpuContext& context, const memory& from, const memory& to) {
    const dnnl::reorder::primitive_desc description(from, to, with_scratchpad());
    return {context, description, dnnl::reorder(description), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

memory::dims gaps_of(const ConvShape& s) { return {s.dilation_y - 1, s.dilation_x - 1}; }

memory::dims reach_of(const ConvShape& s) {
    return {memory::dim(s.kernel_height - 1) * s.dilation_y, memory::dim(s.kernel_width - 1) * s.dilation_x};
}

Described descriptors(const ConvShape& s, bool bias) {
    Described d;
    const memory::dim n = s.batch, i = s.in_channels, o = s.out_channels;
    d.dense = s.in_height * s.in_width * s.kernel_height * s.kernel_width * s.out_height * s.out_width == 1 &&
              s.groups == 1;
    if (bias) d.b = described({o}, Tag::a);
    if (d.dense) {
        d.x = described({n, i}, Tag::ab);
        d.w_user = described({o, i}, Tag::ba);
        d.w_any = described({o, i}, Tag::any);
        d.y = described({n, o}, Tag::ab);
        return d;
    }
    memory::dims weights{o, i, s.kernel_height, s.kernel_width};
    if (s.groups > 1) weights = {s.groups, o / s.groups, i / s.groups, s.kernel_height, s.kernel_width};
    d.x = described({n, i, s.in_height, s.in_width}, Tag::nhwc);
    d.w_user = described(weights, s.groups > 1 ? Tag::hwigo : Tag::hwio);
    d.w_any = described(weights, Tag::any);
    d.y = described({n, o, s.out_height, s.out_width}, Tag::nhwc);
    d.strides = {s.stride_y, s.stride_x};
    d.gaps = gaps_of(s);
    d.pads_before = {s.pad_top, s.pad_left};
    const memory::dims reach = reach_of(s);
    d.pads_after = pads_after_of(s, reach[0] + 1, reach[1] + 1);
    return d;
}

} // namespace towers
