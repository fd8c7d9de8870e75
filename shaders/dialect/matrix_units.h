// What CUDA's matrix units do, an instruction each (PTX ISA, "Matrix multiply-accumulate operation using mma
// instruction"). All lanes of a warp execute them together. A matrix has 16-bit numbers, two in a word, the
// first in its lower half, or tf32 numbers, float32 ones whose last 13 bits are 0. Lane 4 g + t holds of
//   A, 16 x 16, in 4 words  rows g, g + 8, g, g + 8, columns 2 t and 2 t + 1, in the last two 8 more
//   B, 16 x 8, in 2 words   rows 2 t and 2 t + 1, in the second 8 more, column g
//   C, 16 x 8, in 4 floats  row g, in the last two g + 8, columns 2 t and 2 t + 1
// and of tf32's A, 16 x 8, and B, 8 x 8, column (row) t, 4 more where others have 8 more.
#ifndef TOWERS_SHADERS_DIALECT_MATRIX_UNITS_H
#define TOWERS_SHADERS_DIALECT_MATRIX_UNITS_H

// Four matrices of 8 rows of 16 bytes in shared memory. Lane i tells where row i % 8 of matrix i / 8 begins;
// lane 4 g + t gets word t of row g of each.
inline __device__ void load_matrices(uint (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(uint(__cvta_generic_to_shared(row)))
                 : "memory");
}
// The same matrices of 16-bit numbers, transposed
inline __device__ void load_transposed_matrices(uint (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(uint(__cvta_generic_to_shared(row)))
                 : "memory");
}

inline __device__ uint load_word(const void* word) { return *static_cast<const uint*>(word); }

// C += A B. The backend uses what a card has (units_of() in backends/cuda/cuda_backend.cpp).
inline __device__ void multiply_add_bf16(float (&c)[4], const uint (&a)[4], uint b0, uint b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("trap;");
#endif
}
inline __device__ void multiply_add_fp16(float (&c)[4], const uint (&a)[4], uint b0, uint b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}
inline __device__ void multiply_add_tf32(float (&c)[4], const uint (&a)[4], uint b0, uint b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("trap;");
#endif
}

// Two numbers, rounded to the nearest, of two the even one
inline __device__ uint pack_bf16(float low, float high) {
    uint both = 0u;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
    asm volatile("trap;");
#endif
    return both;
}
inline __device__ uint pack_fp16(float low, float high) {
    uint both;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }"
        : "=r"(both)
        : "f"(low), "f"(high));
#endif
    return both;
}

#endif
