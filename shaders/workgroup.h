#ifndef TOWERS_SHADERS_WORKGROUP_H
#define TOWERS_SHADERS_WORKGROUP_H

// workgroupAdd(x): the sum of what a workgroup's invocations give, which all of them get. All must call it. On the
// host a workgroup is one invocation.
#ifdef WORKGROUPS_ARE_SUBGROUPS
#define workgroupAdd subgroupAdd
#elif defined(SHARED_QUADS)
#define MOST_SUBGROUPS 256u // of one invocation
SHARED_QUADS(float_sums, MOST_SUBGROUPS);
SHARED_WORD_QUADS(word_sums, MOST_SUBGROUPS);

#define WORKGROUP_ADD(type, zero, sums)                                                                      \
    FUNCTION type workgroupAdd(type x) {                                                                     \
        const type part = subgroupAdd(x);                                                                    \
        barrier(); /* nobody reads the sums before these any more */                                         \
        if (SUBGROUP_LANE == 0u) sums[SUBGROUP_ID] = part;                                                   \
        barrier();                                                                                           \
        type sum = type(zero);                                                                               \
        for (uint i = 0u; i < SUBGROUPS; ++i) sum += type(sums[i]);                                          \
        return sum;                                                                                          \
    }
WORKGROUP_ADD(vec4, 0.0f, float_sums)
WORKGROUP_ADD(uvec4, 0u, word_sums)
#endif

#endif
