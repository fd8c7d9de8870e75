// How many items the kernels' sources for cards count, as the host's compiler reads them.
#include "tests/conformance/harness.h"

namespace towers {
namespace counting_kernels {
using namespace dialect;

std::optional<std::uint64_t> counted;

#undef FOR_RANGE
#undef FOR_SUBGROUPS
#undef FOR_WORKGROUPS
#undef FOR_ELEMENTS
#define FOR_RANGE(i, items)                                                                                  \
    counted = (items);                                                                                       \
    for (uint i = 0; i != 0; ++i)
#define FOR_SUBGROUPS(i, items) FOR_RANGE(i, items)
#define FOR_WORKGROUPS(i, items) FOR_RANGE(i, items)
#define FOR_ELEMENTS(i, elements) FOR_RANGE(i, ELEMENT_ITEMS(elements))
#undef KERNEL
#define KERNEL(name, Params, size) void name(const Params& p)

// What cards' sources use between barriers; here none of it runs.
#define SHARED_QUADS(name, count) vec4 name[count]
#define WORKGROUPS_ARE_SUBGROUPS
inline void barrier() {}
#include "cuda_kernel_sources.inc"

} // namespace counting_kernels

std::optional<std::uint64_t> test::counted_items(const Launch& launch) {
    counting_kernels::counted.reset();
    switch (launch.kernel) {
#define TOWERS_KERNEL(name, Params, size, items)                                                             \
    case Kernel::name:                                                                                       \
        counting_kernels::name(launch.parameters.as<Params>());                                              \
        break;
#define TOWERS_TILED_KERNEL(name, Params, size)                                                              \
    case Kernel::name:                                                                                       \
        break;
#include "shaders/kernels.def"
#undef TOWERS_KERNEL
#undef TOWERS_TILED_KERNEL
    }
    return counting_kernels::counted;
}

} // namespace towers
