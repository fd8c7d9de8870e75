#include "backends/kernels.h"

#include "backends/launch/tiles.h"
#include "backends/parameter_layout.h"

namespace towers {
namespace {

constexpr KernelInfo infos[] = {
#define ENTRY(name, Params, size, item, items)                                                               \
    {#name,                                                                                                  \
     size,                                                                                                   \
     item,                                                                                                   \
     sizeof(Params),                                                                                         \
     layout::pointers_of<Params>,                                                                            \
     layout::elements_of<Params>,                                                                            \
     [](const ParameterBlock& block) -> std::uint64_t {                                                      \
         [[maybe_unused]] const auto p = block.as<Params>();                                                 \
         return items;                                                                                       \
     }},
#define TOWERS_KERNEL(name, Params, size, items) ENTRY(name, Params, size, Item::invocation, items)
#define TOWERS_SUBGROUP_KERNEL(name, Params, size, items) ENTRY(name, Params, size, Item::subgroup, items)
#define TOWERS_WORKGROUP_KERNEL(name, Params, size, items) ENTRY(name, Params, size, Item::workgroup, items)
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    ENTRY(name, Params, size, Item::tile, products_of(p).elements())
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
};

} // namespace

const KernelInfo& kernel_info(Kernel kernel) { return infos[std::size_t(kernel)]; }
std::span<const KernelInfo> all_kernels() { return infos; }
std::uint64_t items_of(const Launch& launch) { return kernel_info(launch.kernel).items(launch.parameters); }

} // namespace towers
