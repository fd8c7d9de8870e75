// Where the variables lie in the flat arenas of parameters, gradients and moving averages.
#pragma once

#include "engine/model/model.h"

#include <span>
#include <vector>

namespace towers {

/// A range of an arena, in bytes.
struct ArenaRange {
    std::size_t offset, bytes;
};

struct ParameterSlot {
    Variable variable;
    ArenaRange range;
};

/// Variables in the order in which backward finishes their gradients: last layer first.
struct ParameterLayout {
    std::vector<ParameterSlot> slots;
    std::size_t bytes = 0;

    unsigned quads() const { return unsigned(bytes / 16); } ///< vec4s in the arena, padding (zeros) included
};

ParameterLayout layout_parameters(const Model& model);

/// A whole arena of the variables' initial values, with zero padding.
std::vector<float> initial_parameters(const ParameterLayout& layout, std::uint64_t seed);

/// Cuts the arena into runs of whole variables of at least `least` bytes each, except perhaps the last: what
/// a tower delivers to the averaging stage at once.
std::vector<ArenaRange> make_buckets(const ParameterLayout& layout, std::size_t least);

} // namespace towers
