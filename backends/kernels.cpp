#include "backends/kernels.h"

#include "backends/parameter_layout.h"

namespace towers {
namespace {

constexpr KernelInfo infos[] = {
#define ENTRY(name, Params, size, item)                                                                      \
    {#name, size, item, sizeof(Params), layout::pointers_of<Params>, layout::elements_of<Params>},
#define TOWERS_KERNEL(name, Params, size) ENTRY(name, Params, size, Item::invocation)
#define TOWERS_SUBGROUP_KERNEL(name, Params, size) ENTRY(name, Params, size, Item::subgroup)
#define TOWERS_TILED_KERNEL(name, Params, size) ENTRY(name, Params, size, Item::tile)
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

} // namespace

const KernelInfo& kernel_info(Kernel kernel) { return infos[std::size_t(kernel)]; }
std::span<const KernelInfo> all_kernels() { return infos; }

} // namespace towers
