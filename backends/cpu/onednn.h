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

/// oneDNN takes no pointers to const, but leaves its inputs alone.
inline dnnl::memory tensor(const CpuContext& context, const dnnl::memory::desc& desc, const void* data) {
    return {desc, context.engine, const_cast<void*>(data)};
}

} // namespace towers
