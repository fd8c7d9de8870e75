// The kernel dialect for glslang, which compiles it to SPIR-V 1.6.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

#define BUFFER(access, name, type)                                                                           \
    layout(buffer_reference, std430, buffer_reference_align = 16) access buffer name { type at[]; }
BUFFER(readonly restrict, In_f32, float);
BUFFER(readonly restrict, In_f32x4, vec4);
BUFFER(readonly restrict, In_u32, uint);
BUFFER(readonly restrict, In_u32x4, uvec4);
BUFFER(readonly restrict, In_fixed64, uvec2);
BUFFER(writeonly restrict, Out_f32, float);
BUFFER(writeonly restrict, Out_f32x4, vec4);
BUFFER(writeonly restrict, Out_u32, uint);
BUFFER(writeonly restrict, Out_fixed64, uvec2);
BUFFER(restrict, InOut_f32, float);
BUFFER(restrict, InOut_f32x4, vec4);
BUFFER(restrict, InOut_u32, uint);

// The same tensor, four elements at once; by way of the address, since SwiftShader ends at a cast from
// reference to reference
In_f32x4 in_quads(In_f32 x) { return In_f32x4(uvec2(x)); }
Out_f32x4 out_quads(Out_f32 x) { return Out_f32x4(uvec2(x)); }

#define KERNEL(name, Params, size)                                                                           \
    layout(local_size_x = size) in;                                                                          \
    layout(push_constant) uniform Block { Params p; };                                                       \
    void main()

// The size is known only below this line; above, gl_WorkGroupSize is 1.
#define WORKGROUP_OF(size) layout(local_size_x = size) in;
#define GROUP_ID gl_WorkGroupID.x
#define GROUPS gl_NumWorkGroups.x
#ifdef WORKGROUPS_ARE_SUBGROUPS // for software drivers, whose barriers are slow
#define LOCAL_ID gl_SubgroupInvocationID
#define WORKGROUP_SIZE gl_SubgroupSize
#else
#define LOCAL_ID gl_LocalInvocationIndex
#define WORKGROUP_SIZE gl_WorkGroupSize.x
#endif
#define SUBGROUP_LANE gl_SubgroupInvocationID
#define SUBGROUP_SIZE gl_SubgroupSize
#define SUBGROUP_ID gl_SubgroupID
#define SUBGROUPS gl_NumSubgroups
#define FOR_RANGE(i, count)                                                                                  \
    for (uint i = gl_GlobalInvocationID.x; i < (count); i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
#define UNROLL [[unroll]]
// Drivers unroll a loop fully or not at all; this one is unrolled by four. `count` is a multiple of 4.
#define FOR_PARTLY_UNROLLED(i, count)                                                                        \
    [[dont_unroll]] for (uint first_##i = 0u; first_##i < (count); first_##i += 4u)                          \
        [[unroll]] for (uint i = first_##i; i < first_##i + 4u; ++i)
#define FUNCTION
// Of a variable: its sums and products are computed as they are written. Drivers may fuse others, and
// multiply out (x + 3) / 6 to x / 6 + 1 / 2, whose sum cancels where that of x + 3 is exact.
#define PRECISE precise
// Shared memory of so many vec4, or uvec4
#define SHARED_QUADS(name, count) shared vec4 name[count]
#define SHARED_WORD_QUADS(name, count) shared uvec4 name[count]

uint mul_high(uint a, uint b) {
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}

float fast_sqrt(float x) { return sqrt(x); }
vec4 fast_quotient(vec4 a, vec4 b) { return a / b; }

float as_float(uint bits) { return uintBitsToFloat(bits); }
uint as_uint(float x) { return floatBitsToUint(x); }

#define ADD_ATOMICALLY(word, number) atomicAdd(word, number)
#define OR_ATOMICALLY(word, bits) atomicOr(word, bits)
#define ADD_TO_SHARED(word, number) atomicAdd(word, number)

// Not isnan() and isinf(), which a driver without float controls may assume to be always false.
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }
