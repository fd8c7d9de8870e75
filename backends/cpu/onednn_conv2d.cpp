#include "backends/cpu/onednn_conv2d.h"

#include "backends/arithmetic.h"

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

Described descriptors(const ConvShape& s, bool bias, const Rounding& rounding) {
    Described d;
    const memory::dim n = s.batch, i = s.in_channels, o = s.out_channels;
    d.dense = s.in_height * s.in_width * s.kernel_height * s.kernel_width * s.out_height * s.out_width == 1 &&
              s.groups == 1;
    if (bias) d.b = described({o}, Tag::a);
    const auto describe_all = [&](const memory::dims& x, const memory::dims& w, const memory::dims& y,
                                  Tag images, Tag weights) {
        const memory::data_type type = rounding.type();
        d.x = {x, type, images};
        d.w_any = {w, type, Tag::any};
        d.dy = {y, type, images};
        d.x_user = described(x, images);
        d.w_user = described(w, weights);
        d.w_user_any = described(w, Tag::any);
        d.y_user = described(y, images);
    };
    if (d.dense) {
        describe_all({n, i}, {o, i}, {n, o}, Tag::ab, Tag::ba);
        return d;
    }
    memory::dims weights{o, i, s.kernel_height, s.kernel_width};
    if (s.groups > 1) weights = {s.groups, o / s.groups, i / s.groups, s.kernel_height, s.kernel_width};
    describe_all({n, i, s.in_height, s.in_width}, weights, {n, o, s.out_height, s.out_width}, Tag::nhwc,
                 s.groups > 1 ? Tag::hwigo : Tag::hwio);
    d.strides = {s.stride_y, s.stride_x};
    d.gaps = gaps_of(s);
    d.pads_before = {s.pad_top, s.pad_left};
    const memory::dims reach = reach_of(s);
    d.pads_after = pads_after_of(s, reach[0] + 1, reach[1] + 1);
    return d;
}

Factor::Factor(CpuContext& context, const memory::desc& user, const memory::desc& wanted,
               const Rounding& rounding)
    : context_(&context), operands_(rounding.operands), user_(tensor(context, user, nullptr)),
      wanted_(tensor(context, wanted, nullptr)) {
    if (rounding.units) narrow_.emplace(reorder(context, user_, wanted_));
}

std::size_t Factor::scratch_bytes() const {
    if (operands_ == Precision::fp32) return 0;
    return aligned(wanted_.get_desc().get_size()) + (narrow_ ? aligned(narrow_->scratch_bytes()) : 0);
}

void Factor::load(const float* tensor, std::byte* scratch) {
    if (operands_ == Precision::fp32) return wanted_.set_data_handle(const_cast<float*>(tensor));
    wanted_.set_data_handle(scratch);
    if (narrow_) {
        user_.set_data_handle(const_cast<float*>(tensor));
        narrow_->run(context_->stream, scratch + aligned(wanted_.get_desc().get_size()));
        return;
    }
    const std::size_t count = user_.get_desc().get_size() / sizeof(float), threads = context_->threads;
    auto* const to = reinterpret_cast<float*>(scratch);
#pragma omp parallel for num_threads(int(threads))
    for (std::size_t thread = 0; thread < threads; ++thread) {
        const std::size_t first = count * thread / threads, end = count * (thread + 1) / threads;
        round_all({tensor + first, end - first}, operands_, to + first);
    }
}

} // namespace towers
