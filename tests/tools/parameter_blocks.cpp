// Parameter blocks that backends/parameter_layout.h must read, and for each -DCASE one that it must refuse
// with the words in its comment. parameter_blocks.sh compiles them.
#include "backends/parameter_layout.h"

namespace towers {

struct Pair {
    uint a;
    float b;
};
struct Good {
    In_f32 x;
    In_u32x4 many[3];
    In_fixed64 sums;
    Out_f32x4 y;
    InOut_f32 z;
    float weights[3];
    Pair pair;
    uint count;
};
static_assert(layout::readable<Good>());
static_assert(layout::pointers_of<Good> == std::array{Access::read, Access::read, Access::read, Access::read,
                                                      Access::read, Access::write, Access::read_write});
static_assert(layout::elements_of<Good> ==
              std::array{ElementType::float32, ElementType::uint32, ElementType::uint32, ElementType::uint32,
                         ElementType::fixed64, ElementType::float32, ElementType::float32});

struct Nested {
    In_f32 x;
    uint count;
};

#if CASE == 1 // pointers first
struct Bad {
    In_f32 x;
    uint count;
    Out_f32 y;
};
#elif CASE == 2  // no pointers in nested structs
struct Bad {
    In_f32 x;
    Nested nested;
};
#elif CASE == 3  // no pointers in nested structs
struct Behind {
    uint count;
    In_f32 x;
};
struct Bad {
    In_f32 x;
    Behind behind;
};
#elif CASE == 4  // at least one pointer
struct Bad {
    uint count;
};
#elif CASE == 5  // 32-bit scalars
struct Bad {
    In_f32 x;
    std::uint64_t count;
};
#elif CASE == 6  // 32-bit scalars
struct Bad {
    In_f32 x;
    bool on;
};
#elif CASE == 7  // pointers (In_, Out_, InOut_) and 32-bit scalars
struct Bad {
    const float* x;
    uint count;
};
#elif CASE == 8  // unknown type
struct Bad {
    In<int> x;
    uint count;
};
#elif CASE == 9  // at most 128 bytes
struct Bad {
    In_f32 x;
    uint many[31];
};
#elif CASE == 10 // plain struct
struct Bad {
    explicit Bad(int);
    In_f32 x;
};
#elif CASE == 11 // no padding
struct alignas(32) Bad {
    In_f32 x;
    uint count;
};
#elif CASE == 12 // unknown type
struct Bad {
    In_f32 x;
    InOut<std::uint16_t> halves;
};
#else
using Bad = Good;
#endif

constexpr auto pointers = layout::pointers_of<Bad>;
constexpr auto elements = layout::elements_of<Bad>;
static_assert(pointers.size() == elements.size());

} // namespace towers
