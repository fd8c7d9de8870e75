// The one difference between oneDNN 2 and 3 that matters here: how primitives are described.
#pragma once

#include "backends/cpu/overrides.h"

#include <dnnl.hpp>
#include <utility>

namespace towers {

using Tag = dnnl::memory::format_tag;

inline dnnl::memory::desc described(const dnnl::memory::dims& dims, Tag tag) {
    return {dims, dnnl::memory::data_type::f32, tag};
}

template<class Primitive, class... Arguments>
auto describe(const CpuContext& context, const dnnl::primitive_attr& attributes, Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(context.engine, arguments..., attributes);
#else
    return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                              context.engine);
#endif
}

/// Backward primitives want the forward one's description as a hint.
template<class Primitive, class Hint, class... Arguments>
auto describe_backward(const CpuContext& context, const Hint& forward, Arguments&&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
    return typename Primitive::primitive_desc(context.engine, arguments..., forward);
#else
    return
        typename Primitive::primitive_desc(typename Primitive::desc(arguments...), context.engine, forward);
#endif
}

inline dnnl::primitive_attr with_relu(bool relu) {
    dnnl::primitive_attr attributes;
    if (relu) {
        dnnl::post_ops then;
#if DNNL_VERSION_MAJOR >= 3
        then.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
        then.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
        attributes.set_post_ops(then);
    }
    return attributes;
}

/// oneDNN takes no pointers to const, but leaves its inputs alone.
inline dnnl::memory tensor(const CpuContext& context, const dnnl::memory::desc& desc, const void* data) {
    return {desc, context.engine, const_cast<void*>(data)};
}

} // namespace towers
