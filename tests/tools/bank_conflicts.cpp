// Counts the bank conflicts of a source by quads (shaders/gemm_quads.h), or with FRAGMENTS of one by
// fragments (shaders/gemm_fragments.h), on NVIDIA's cards: the source itself runs, thread after thread, and
// tells what it reads from and writes to shared memory. gpu_static compiles it for each source and tile, with
// A_ALONG_K, B_ALONG_K, TILE_M, TILE_N, THREADS and the type of operands.
//
// Shared memory has 32 banks of 4 bytes. A warp's access to single words is one pass, or as many as there
// are different words in one bank; an access to quads is four passes, each of a quarter of the warp, to pairs
// two, or more if different quads of one quarter share banks. ldmatrix reads a quad of each lane. Prints the
// passes beyond these that the warps of a workgroup make for one slice, when they store it and when they
// multiply.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

namespace {

using uint = unsigned;
constexpr uint banks = 32, warp = 32;

struct Access {
    uint word, width; // its first, and how many
    bool store;
};
std::vector<std::vector<Access>> accesses; // by thread, between the barriers around the only slice
uint thread = 0, barriers = 0;

void access(const Access& one) {
    if (barriers == 1) accesses[thread].push_back(one);
}

// What the source needs of the dialect (shaders/kernel.h)
using std::fma;
using std::min;

struct vec4 {
    std::array<float, 4> elements;
    vec4() = default;
    explicit vec4(float value) { elements.fill(value); }
    vec4(float x, float y, float z, float w) : elements{x, y, z, w} {}
    float& operator[](uint i) { return elements[i]; }
    float operator[](uint i) const { return elements[i]; }
};

struct Loaded { // as in shaders/conv_quads.h
    vec4 quad;
    bool there;
};
Loaded loaded(bool there) { return {vec4(1.0f), there}; }

class SharedFloat {
public:
    explicit SharedFloat(uint word) : word_(word) {}
    void operator=(float) const { access({word_, 1, true}); }

private:
    uint word_;
};

class SharedQuad {
public:
    explicit SharedQuad(uint word) : word_(word) {}
    void operator=(const vec4&) const { access({word_, 4, true}); }
    operator vec4() const {
        access({word_, 4, false});
        return vec4(0.0f);
    }
    SharedFloat operator[](uint element) const { return SharedFloat(word_ + element); }

private:
    uint word_;
};

struct SharedQuads {
    SharedQuad operator[](uint i) const { return SharedQuad(4 * i); }
};

void barrier() { ++barriers; }

#define LOCAL_ID thread
#define GROUP_ID 0u
#define GROUPS 1u
#define UNROLL
#define SHARED_QUADS(name, count) constexpr SharedQuads name

// The source's own tensors are of no interest.
#define PRODUCT(which) const uint rows = TILE_M, depth = TILE_K;
#define BEGIN(first_m, first_n, first_k) const vec4 a_absent(0.0f);
#define LOAD_A(i, there) loaded(there)
#define LOAD_B(j, there) loaded(there)
#define ADVANCE
#define STORE(m, n, part, quad)

#ifndef FRAGMENTS
#include "shaders/gemm_quads.h"
#else
#define FUNCTION inline
#define SUBGROUP_ID (thread / warp)
#define SUBGROUP_LANE (thread % warp)
#define __shared__

template<uint count>
struct Words {
    uint x;
    std::array<uint, count - 1> others;
    Words() = default;
    template<class... More>
    explicit Words(uint first, More... more) : x(first), others{more...} {}
    uint& operator[](uint i) { return i == 0 ? x : others[i - 1]; }
    uint operator[](uint i) const { return i == 0 ? x : others[i - 1]; }
};
using uvec2 = Words<2>;
using uvec4 = Words<4>;
uint as_uint(float) { return 0; }
float as_float(uint) { return 0; }
uint pack_bf16(float, float) { return 0; }
uint pack_fp16(float, float) { return 0; }
float __shfl_xor_sync(uint, float value, uint) { return value; }

// The slices of A, whose addresses begin with 0, and those of B
const char* beginning = nullptr;
uint word_of(const void* address) { return uint((static_cast<const char*>(address) - beginning) / 4); }

template<class T, uint count>
struct Shared {
    struct Element {
        T& element;
        void operator=(const T& value) const {
            access({word_of(&element), sizeof(T) / 4, true});
            element = value;
        }
    };
    T elements[count];
    Element operator[](uint i) { return {elements[i]}; }
};

#define TOWERS_SHADERS_DIALECT_MATRIX_UNITS_H
void load_matrices(uint (&words)[4], const void* row) {
    access({word_of(row), 4, false});
    std::fill_n(words, 4, 0u);
}
void load_transposed_matrices(uint (&words)[4], const void* row) { load_matrices(words, row); }
uint load_word(const void* word) {
    access({word_of(word), 1, false});
    return 0;
}
void multiply_add_bf16(float (&)[4], const uint (&)[4], uint, uint) {}
void multiply_add_fp16(float (&)[4], const uint (&)[4], uint, uint) {}
void multiply_add_tf32(float (&)[4], const uint (&)[4], uint, uint) {}

#include "shaders/gemm_fragments.h"
#endif

void multiply_a_slice() {
    barriers = 0;
    GEMM_SLICES(TILE_M, TILE_N, 1u, 1u)
}

/// Of the same access of neighbouring threads, in one pass if they are without conflicts
uint passes(const std::vector<Access>& together) {
    const uint width = together.front().width;
    std::array<std::set<uint>, banks> words; // different ones, by their first bank
    std::size_t most = 0;
    for (const Access& each : together) {
        auto& bank = words[each.word % banks / width];
        bank.insert(each.word);
        most = std::max(most, bank.size());
    }
    return uint(most);
}

} // namespace

int main() {
#ifdef FRAGMENTS
    beginning = reinterpret_cast<const char*>(std::min<const void*>(&a_slices, &b_slices));
#endif
    accesses.resize(THREADS);
    for (thread = 0; thread < THREADS; ++thread) multiply_a_slice();
    uint loads = 0, stores = 0;
    for (uint first = 0; first < THREADS; first += warp) {
        for (std::size_t i = 0; i < accesses[first].size(); ++i) {
            const Access& one = accesses[first][i];
            const uint at_once = warp / one.width;
            for (uint part = first; part < first + warp; part += at_once) {
                std::vector<Access> together;
                for (uint each = part; each < part + at_once; ++each)
                    together.push_back(accesses[each].at(i));
                (one.store ? stores : loads) += passes(together) - 1;
            }
        }
    }
    std::printf("%u %u\n", stores, loads);
}
