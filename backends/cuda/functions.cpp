#include "backends/cuda/functions.h"

#include "backends/launch/quads.h"
#include "backends/launch/sharing.h"
#include "backends/launch/stages.h"
#include "backends/launch/winograd.h"

namespace towers {

namespace cuda_text { // where nvcc compiled them

#define TOWERS_TILED_TEXT(text, height, width, threads)                                                      \
    extern const void* const text##_##height##_##width##_function;
#include "tiled_kernel_texts.inc"
#undef TOWERS_TILED_TEXT

#define TOWERS_KERNEL(name, Params, size, items) extern const void* const name##_function;
#define TOWERS_TILED_KERNEL(name, Params, size)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL

} // namespace cuda_text

namespace {

/// Of a tiled kernel's text; null: it was not compiled for the tile.
const void* function_of(std::string_view text, const Tile& tile) {
#define TOWERS_TILED_TEXT(name, tall, wide, many)                                                            \
    if (text == #name && tile.height == tall && tile.width == wide)                                          \
        return cuda_text::name##_##tall##_##wide##_function;
#include "tiled_kernel_texts.inc"
#undef TOWERS_TILED_TEXT
    return nullptr;
}

} // namespace

std::span<const cuda::CudaVariant> cuda::variants() {
    using Tiled = const std::optional<Tile>&;
    static constexpr CudaVariant all[] = {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    {{Kernel::name, shared_text, offer_shared_text, offers_shared_text},                                     \
     [](Tiled) { return cuda_text::name##_function; }},
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    {{Kernel::name, quads_text, offer_quads, offers_quads},                                                  \
     [](Tiled tile) { return function_of(#name "_quads", *tile); }},                                         \
        {{Kernel::name, padded_quads, offer_padded_quads, offers_padded_quads, padded_stages}, nullptr},     \
        {{Kernel::name, winograd_method, offer_winograd, offers_winograd, winograd_stages}, nullptr},        \
        {{Kernel::name, shared_text, offer_shared_text, offers_shared_text},                                 \
         [](Tiled tile) { return function_of(#name, *tile); }},
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    };
    return all;
}

} // namespace towers
