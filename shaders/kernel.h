// What every kernel file includes first: the dialect of the compiler at hand, then the parameter blocks.
// A kernel reads:
//   KERNEL(name, Params, size) { ... }   its parameter block is `p`
//   FOR_RANGE(i, count) { ... }          the invocations share out the items; the result must not depend on how
//   FOR_ELEMENTS(i, count) { ... }       on the host only: elements, where other compilers take items of four
//   FOR_SUBGROUPS(i, count) { ... }      the subgroups share out the items, their lanes work on one together:
//                                        SUBGROUP_LANE, SUBGROUP_SIZE, subgroupAdd(), subgroupMax().
//                                        Workgroups get as many items each, neighbours if possible.
//   FOR_WORKGROUPS(i, count) { ... }     the workgroups share out the items, their invocations work on one
//                                        together: LOCAL_ID, WORKGROUP_SIZE, workgroupAdd() of workgroup.h
//   WORKGROUP_OF(size)                   before functions that use WORKGROUP_SIZE
//   GROUP_ID, GROUPS, LOCAL_ID           tiled kernels only, and likewise
//   ADD_ATOMICALLY(word, number)         adds to an element of an InOut_u32; its result is not to be used
//   OR_ATOMICALLY(word, bits)            sets bits of one, likewise
//   ADD_TO_SHARED(word, number)          adds to a word of a workgroup's shared memory, likewise
//   FOR_PARTLY_UNROLLED(i, count) { ... }  a loop that would take too many registers unrolled; 4 divides `count`
// See params.h for what each kernel computes.
#ifndef TOWERS_SHADERS_KERNEL_H
#define TOWERS_SHADERS_KERNEL_H

#ifdef TOWERS_GLSL
#include "dialect/glsl.h"
#include "params.h"
#elif defined(__CUDACC__)
#include "dialect/cuda.h"
namespace towers::cuda_text {
#include "params.h"
} // namespace towers::cuda_text
#else
#include "dialect/host.h"
namespace towers {
#include "params.h"
} // namespace towers
#endif

#ifndef FOR_SUBGROUPS
#define FIRST_ITEM(count, group) ((count) / GROUPS * (group) + min((count) % GROUPS, (group)))
#ifdef TOWERS_GLSL
// llvmpipe (Mesa 26) runs the body of a loop once more for no lane, and loads what all lanes share even then, behind
// the last item; but no `if` with loops or branches in it that holds for no lane. So all take the same rounds: an `if`
// with the loop's own condition would be optimized away.
#define FOR_SUBGROUPS(i, count)                                                                              \
    for (uint i##_round = FIRST_ITEM(count, GROUP_ID), i##_end = FIRST_ITEM(count, GROUP_ID + 1u),           \
              i = i##_round + SUBGROUP_ID;                                                                   \
         i##_round < i##_end; i##_round += SUBGROUPS, i += SUBGROUPS)                                        \
        if (i < i##_end)
#define FOR_GROUPS(i, count)                                                                                 \
    for (uint i##_round = 0u, i = GROUP_ID; i##_round < (count); i##_round += GROUPS, i += GROUPS)           \
        if (i < (count))
#else
#define FOR_SUBGROUPS(i, count)                                                                              \
    for (uint i = FIRST_ITEM(count, GROUP_ID) + SUBGROUP_ID, i##_end = FIRST_ITEM(count, GROUP_ID + 1u);     \
         i < i##_end; i += SUBGROUPS)
#define FOR_GROUPS(i, count) for (uint i = GROUP_ID; i < (count); i += GROUPS)
#endif
#ifdef WORKGROUPS_ARE_SUBGROUPS
#define FOR_WORKGROUPS(i, count) FOR_SUBGROUPS(i, count)
#else
#define FOR_WORKGROUPS(i, count) FOR_GROUPS(i, count)
#endif
#endif

#endif
