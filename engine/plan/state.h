// The layout of everything that outlives a step, in one flat arena.
#pragma once

#include "engine/plan/loss_scale.h"
#include "engine/plan/plateau.h"
#include "engine/plan/variable.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// A range of an arena, in bytes.
struct ArenaRange {
    std::size_t offset, bytes;
    bool operator==(const ArenaRange&) const = default;
};

/// A variable and its place in the first section of the state. Its gradient, or for a statistic its value in
/// the step, has the same place in the gradient arena.
struct VariableSlot {
    Variable variable;
    ArenaRange range;
    float weight_decay; ///< the variable's own or the recipe's
};

/// A section of the state: one piece per variable, or per variable that learns, in the variables' layout.
struct StateSection {
    Role role;          ///< trained: the variables themselves, including statistics
    std::string suffix; ///< of the pieces' names: `/ExponentialMovingAverage`
    float initial;      ///< for an optimizer's section; averages begin equal to their variables
    ArenaRange range;
};

/// One named piece of the state.
struct StateSlot {
    std::string name; ///< `conv1/weights/Momentum`
    Role role;
    const Variable* variable;
    ArenaRange range; ///< of the whole state
};

/// Trained variables come in the order in which backward finishes their gradients, last layer first; the
/// statistics follow, then what is frozen. Slices begin at multiples of slice_alignment, with zeros between
/// them.
struct StateLayout {
    std::vector<VariableSlot> variables;
    std::size_t trained_bytes = 0;      ///< of the variables that learn
    std::size_t updated_bytes = 0;      ///< with the statistics: of what a step changes
    std::size_t variable_bytes = 0;     ///< with the frozen variables
    std::vector<StateSection> sections; ///< variables, optimizer's state, averages if there are any
    std::size_t bytes = 0;

    ArenaRange trained() const { return {0, trained_bytes}; }
    ArenaRange updated() const { return {0, updated_bytes}; }
    ArenaRange frozen() const { return {updated_bytes, variable_bytes - updated_bytes}; }
    ArenaRange all_variables() const { return {0, variable_bytes}; }
    /// The section of moving averages, or null.
    const StateSection* averages() const;
    /// Every piece, section by section.
    std::vector<StateSlot> slots() const;
    const VariableSlot& find(const std::string& variable) const; ///< std::logic_error when there is none
};

/// vec4s in a range, padding included.
constexpr unsigned quads(std::size_t bytes) { return unsigned(bytes / 16); }
constexpr unsigned quads(const ArenaRange& range) { return quads(range.bytes); }

/// The part of an arena of floats in a range.
template<class T>
std::span<T> part(std::span<T> arena, const ArenaRange& range) {
    return arena.subspan(range.offset / sizeof(float), range.bytes / sizeof(float));
}

/// Whether an update treats the elements of both alike.
bool are_updated_alike(const VariableSlot& a, const VariableSlot& b);

/// A layout in which a range of variables that are updated alike is a single variable, so that a plan for a
/// whole state can update a block.
StateLayout layout_of_block(const StateLayout& whole, const ArenaRange& block);

/// Divides a range of variables into blocks of at most this many bytes, for layout_of_block().
std::vector<ArenaRange> make_blocks(const StateLayout& layout, const ArenaRange& range, std::size_t most);

/// Appends a section with a piece for each variable, or for each one that learns if the section is the
/// optimizer's. Call it after all variables are in the layout.
void add_section(StateLayout& layout, Role role, std::string suffix, float initial);

/// Everything that changes in training, which is what a checkpoint keeps.
struct TrainingState {
    std::uint64_t step = 0;                   ///< updates done
    std::uint64_t examples = 0;               ///< examples seen
    std::vector<float> state;                 ///< laid out as StateLayout says
    std::optional<LossScale> loss_scale = {}; ///< of the next step; none: without loss scaling
    std::optional<Plateau> plateau = {};      ///< none: with another schedule
};

/// The whole initial state of a training.
std::vector<float> initial_state(const StateLayout& layout, std::uint64_t seed);

/// Sets the averages to the variables. Call it after the variables have been set.
void start_averages(const StateLayout& layout, std::span<float> state);

/// The sizes of buckets.
struct BucketBytes {
    std::size_t least, most; ///< multiples of slice_alignment
};

/// Large enough to be worth starting a copy, small enough that the copies out, the update and the copies
/// back of a large layer overlap, and that the last bucket, which everyone waits for, is small.
BucketBytes bucket_bytes(const StateLayout& layout);

/// Cuts what a step changes, the trained variables and then the statistics, into what a tower delivers to the
/// host reducer at once: runs of whole layers of at least `least` bytes each, except perhaps the last. Runs
/// of more than `most` bytes are cut into equal parts.
std::vector<ArenaRange> make_buckets(const StateLayout& layout, const BucketBytes& bytes);

} // namespace towers
