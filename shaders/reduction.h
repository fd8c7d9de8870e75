#ifndef TOWERS_SHADERS_REDUCTION_H
#define TOWERS_SHADERS_REDUCTION_H

// A reduction over a large tensor: a subgroup takes one chunk (REDUCTION_CHUNKS). FOR_CHUNK gives the first of the
// lane's next quads in flight, which it loads all before it uses one; those that IS_IN_CHUNK denies are the first
// again.
#define QUADS_IN_FLIGHT 4u
#define FOR_CHUNK(i, quads, chunk)                                                                           \
    const uint i##_end = REDUCTION_BEGIN(quads, (chunk) + 1u);                                               \
    for (uint i = REDUCTION_BEGIN(quads, chunk) + SUBGROUP_LANE; i < i##_end;                                \
         i += QUADS_IN_FLIGHT * SUBGROUP_SIZE)
#define FOR_QUADS_IN_FLIGHT(k) UNROLL for (uint k = 0u; k < QUADS_IN_FLIGHT; ++k)
#define IS_IN_CHUNK(i, k) ((i) + (k)*SUBGROUP_SIZE < i##_end)
#define QUAD_IN_FLIGHT(i, k) (IS_IN_CHUNK(i, k) ? (i) + (k)*SUBGROUP_SIZE : (i))

#endif
