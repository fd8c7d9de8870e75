// Hides the one difference between oneDNN 2 and 3 that matters here: how primitives are described.
#pragma once

#include "backends/cpu/overrides.h"

#include <dnnl.hpp>
#include <unordered_map>
#include <utility>

namespace towers {

using Tag = dnnl::memory::format_tag;

inline dnnl::memory::desc described(const dnnl::memory::dims& dims, Tag tag) {
    return {dims, dnnl::memory::data_type::f32, tag};
}

/// oneDNN's own scratchpad belongs to the thread that creates the primitive, but here another thread executes
/// it.
inline dnnl::primitive_attr with_scratchpad() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
}

/// The padding below and to the right of an image, for windows of so many pixels, gaps included. Negative if
/// no window covers the last pixels.
template<class Shape>
dnnl::memory::dims pads_after_of(const Shape& s, dnnl::memory::dim window_height,
                                 dnnl::memory::dim window_width) {
    using dim = dnnl::memory::dim;
    return {dim(s.out_height - 1) * s.stride_y + window_height - s.in_height - s.pad_top,
            dim(s.out_width - 1) * s.stride_x + window_width - s.in_width - s.pad_left};
}

template<class Primitive, class... Arguments>
auto describe(const CpuContext& context, Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(context.engine, arguments..., with_scratchpad());
#else
    return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), with_scratchpad(),
                                              context.engine);
#endif
}

/// Backward primitives need the forward one's description as a hint.
template<class Primitive, class Hint, class... Arguments>
auto describe_backward(const CpuContext& context, const Hint& forward, Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(context.engine, arguments..., forward, with_scratchpad());
#else
    return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), with_scratchpad(),
                                              context.engine, forward);
#endif
}

/// A primitive and its arguments, except the scratchpad.
class Execution {
public:
    template<class Description>
    Execution(CpuContext& context, const Description& description, const dnnl::primitive& primitive,
              std::unordered_map<int, dnnl::memory> arguments)
        : context_(&context), primitive_(primitive), arguments_(std::move(arguments)),
          scratchpad_(description.scratchpad_desc()), scratch_(context, scratchpad_.get_size()) {}

    void operator()() { run(context_->stream, scratch_.bytes()); }

    /// For several threads at once, each with an execution, a stream and a scratchpad of its own.
    void run(const dnnl::stream& stream, void* scratch) {
        arguments_[DNNL_ARG_SCRATCHPAD] = dnnl::memory(scratchpad_, context_->engine, scratch);
        primitive_.execute(stream, arguments_);
    }
    std::size_t scratch_bytes() const { return scratchpad_.get_size(); }

private:
    CpuContext* context_;
    dnnl::primitive primitive_;
    std::unordered_map<int, dnnl::memory> arguments_;
    dnnl::memory::desc scratchpad_;
    Scratch scratch_;
};

/// oneDNN takes no pointers to const, but leaves its inputs alone.
inline dnnl::memory tensor(const CpuContext& context, const dnnl::memory::desc& desc, const void* data) {
    return {desc, context.engine, const_cast<void*>(data)};
}

} // namespace towers
