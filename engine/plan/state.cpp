#include "engine/plan/state.h"

#include "engine/plan/plan.h"

#include <algorithm>
#include <stdexcept>

namespace towers {

const StateSection* StateLayout::averages() const {
    const auto found = std::ranges::find(sections, Role::average, &StateSection::role);
    return found == sections.end() ? nullptr : &*found;
}

std::vector<StateSlot> StateLayout::slots() const {
    std::vector<StateSlot> all;
    for (const StateSection& section : sections)
        for (const VariableSlot& slot : variables) {
            if (section.role == Role::optimizer && !slot.variable.learns()) continue;
            const Role role = section.role == Role::trained ? slot.variable.role : section.role;
            all.push_back({slot.variable.name + section.suffix,
                           role,
                           &slot.variable,
                           {section.range.offset + slot.range.offset, slot.range.bytes}});
        }
    return all;
}

const VariableSlot& StateLayout::find(const std::string& variable) const {
    for (const VariableSlot& slot : variables)
        if (slot.variable.name == variable) return slot;
    throw std::logic_error("state: no variable " + variable);
}

void add_section(StateLayout& layout, Role role, std::string suffix, float initial) {
    const std::size_t bytes = role == Role::optimizer ? layout.trained_bytes : layout.variable_bytes;
    layout.sections.push_back({role, std::move(suffix), initial, {layout.bytes, bytes}});
    layout.bytes += bytes;
}

namespace {

const VariableSlot& slot_at(const StateLayout& layout, std::size_t offset) {
    const auto behind = std::ranges::upper_bound(layout.variables, offset, {},
                                                 [](const VariableSlot& slot) { return slot.range.offset; });
    return *std::prev(behind);
}

} // namespace

bool are_updated_alike(const VariableSlot& a, const VariableSlot& b) {
    return a.variable.role == b.variable.role && a.weight_decay == b.weight_decay &&
           a.variable.blend == b.variable.blend;
}

StateLayout layout_of_block(const StateLayout& whole, const ArenaRange& block) {
    StateLayout layout;
    VariableSlot slot = slot_at(whole, block.offset);
    slot.variable.shape = {block.bytes / sizeof(float)};
    slot.range = {0, block.bytes};
    if (slot.variable.role == Role::trained) layout.trained_bytes = block.bytes;
    layout.updated_bytes = layout.variable_bytes = block.bytes;
    layout.variables.push_back(std::move(slot));
    for (const StateSection& section : whole.sections)
        add_section(layout, section.role, section.suffix, section.initial);
    return layout;
}

std::vector<ArenaRange> make_blocks(const StateLayout& layout, const ArenaRange& range, std::size_t most) {
    std::vector<ArenaRange> blocks;
    const std::size_t end = range.offset + range.bytes;
    for (std::size_t begin = range.offset; begin < end;) {
        const VariableSlot& first = slot_at(layout, begin);
        std::size_t alike = begin;
        while (alike < end && are_updated_alike(slot_at(layout, alike), first)) {
            const ArenaRange& next = slot_at(layout, alike).range;
            alike = std::min(end, next.offset + aligned(next.bytes));
        }
        for (; begin < alike; begin += blocks.back().bytes)
            blocks.push_back({begin, std::min(most, alike - begin)});
    }
    return blocks;
}

std::vector<float> initial_state(const StateLayout& layout, std::uint64_t seed) {
    std::vector<float> state(layout.bytes / sizeof(float));
    for (const VariableSlot& slot : layout.variables)
        std::ranges::copy(initial_values(slot.variable, seed), part(std::span(state), slot.range).begin());
    for (const StateSection& section : layout.sections)
        if (section.role == Role::optimizer)
            for (const VariableSlot& slot : layout.variables)
                if (slot.variable.learns())
                    std::ranges::fill(part(part(std::span(state), section.range), slot.range),
                                      section.initial);
    start_averages(layout, state);
    return state;
}

void start_averages(const StateLayout& layout, std::span<float> state) {
    if (const StateSection* averages = layout.averages())
        std::ranges::copy(part(state, layout.all_variables()), part(state, averages->range).begin());
}

BucketBytes bucket_bytes(const StateLayout& layout) {
    constexpr std::size_t most_buckets = 32, least = std::size_t(256) << 10;
    const std::size_t bytes = std::max(least, aligned(layout.variable_bytes / most_buckets));
    return {.least = bytes, .most = 2 * bytes};
}

std::vector<ArenaRange> make_buckets(const StateLayout& layout, const BucketBytes& bytes) {
    std::vector<ArenaRange> buckets;
    std::size_t begin = 0;
    const auto add = [&](std::size_t end) {
        const std::size_t parts = ceil_div(end - begin, bytes.most);
        const std::size_t each = aligned(ceil_div(end - begin, parts));
        for (; begin < end; begin += buckets.back().bytes)
            buckets.push_back({begin, std::min(each, end - begin)});
    };
    for (std::size_t i = 0; begin < layout.updated_bytes; ++i) {
        const ArenaRange& range = layout.variables[i].range;
        const std::size_t end = range.offset + aligned(range.bytes);
        const bool last = end == layout.updated_bytes;
        // Backward finishes a layer's variables together, so they stay in one bucket.
        const bool layer_goes_on =
            !last && layout.variables[i + 1].variable.node == layout.variables[i].variable.node;
        if (last || (!layer_goes_on && end - begin >= bytes.least)) add(end);
    }
    return buckets;
}

} // namespace towers
