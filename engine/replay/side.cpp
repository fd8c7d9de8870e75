#include "engine/replay/side.h"

#include <algorithm>
#include <iterator>

namespace towers {
namespace {

std::vector<WrittenTensor> written_in(const Plan& plan, const Level& level) {
    std::vector<WrittenTensor> all;
    std::size_t end = 0;
    for (const Operation& operation : level) {
        for (const Plan::Use& use : Plan::uses(operation)) {
            if (!use.writes) continue;
            const PlannedTensor& tensor = plan.at(use.tensor);
            all.push_back({.operation = &operation,
                           .tensor = use.tensor,
                           .planned = &tensor,
                           .read = use.reads,
                           .first = true,
                           .whole = true,
                           .window_offset = end});
            end += aligned(tensor.bytes);
        }
    }
    return all;
}

} // namespace

std::vector<std::vector<std::size_t>> overlapping_tensors(const Plan& plan) {
    const std::vector<PlannedTensor>& tensors = plan.tensors();
    std::vector<std::vector<std::size_t>> overlapping(tensors.size());
    std::array<std::vector<std::size_t>, arena_count> slices; // of the fixed arenas
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        overlapping[i].push_back(i);
        if (is_of_activations(tensors[i].arena)) continue; // other tensors use the memory at other times only
        std::vector<std::size_t>& others = slices[std::size_t(tensors[i].arena)];
        for (const std::size_t other : others) {
            if (!overlap(tensors[i], tensors[other])) continue;
            overlapping[i].push_back(other);
            overlapping[other].push_back(i);
        }
        others.push_back(i);
    }
    return overlapping;
}

std::vector<std::vector<WrittenTensor>> written_in(const Plan& plan) {
    const std::vector<std::vector<std::size_t>> overlapping = overlapping_tensors(plan);
    std::vector<std::vector<WrittenTensor>> levels;
    for (const Level& level : plan.levels()) levels.push_back(written_in(plan, level));

    std::vector<bool> has_values(plan.tensors().size());
    for (std::vector<WrittenTensor>& level : levels)
        for (WrittenTensor& written : level)
            for (const std::size_t each : overlapping[written.tensor.index()]) {
                if (has_values[each]) written.first = false;
                has_values[each] = true;
            }

    std::vector<bool> goes_on(plan.tensors().size()); // has a later writer; filled from the end
    for (std::size_t level = levels.size(); level-- > 0;) {
        for (WrittenTensor& written : levels[level]) written.whole = !goes_on[written.tensor.index()];
        for (const bool reads : {false, true})
            for (const Operation& operation : plan.levels()[level])
                for (const Plan::Use& use : Plan::uses(operation))
                    if (use.reads == reads)
                        for (const std::size_t each : overlapping[use.tensor.index()]) goes_on[each] = !reads;
    }
    return levels;
}

std::size_t window_bytes(std::span<const std::vector<WrittenTensor>> levels) {
    std::size_t bytes = 0;
    for (const std::vector<WrittenTensor>& level : levels)
        bytes = std::max(bytes, level.back().window_offset + level.back().planned->bytes);
    return bytes;
}

std::vector<std::size_t> index_in(const TensorShape& shape, std::size_t element) {
    std::vector<std::size_t> index(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis])
        index[axis] = element % shape[axis];
    return index;
}

ParitySide::ParitySide(Device& device, const Plan& plan, const DataSource& images, std::size_t window_bytes)
    : plan_(plan), session_(device), window_(device.allocate(window_bytes, Memory::staging)) {
    session_.hold(plan.bytes());
    session_.load(images);
}

void ParitySide::prepare(std::span<const float> state, const StepNumbers& numbers, const Batch& batch) {
    session_.upload(Arena::state, state.first(plan_.bytes(Arena::state) / sizeof(float)));
    session_.write(numbers);
    session_.write(batch);
    if (const std::size_t bytes = plan_.bytes(Arena::staged_parameters))
        std::ranges::copy(state.first(bytes / sizeof(float)),
                          session_.host<float>(Arena::staged_parameters).begin());
}

void ParitySide::start(std::size_t level, std::span<const WrittenTensor> written) {
    std::vector<Command> commands;
    for (const WrittenTensor& each : written) {
        if (each.read || !each.first) continue;
        std::ranges::fill(words(each), unwritten);
        commands.push_back(from_window(each));
    }
    commands.push_back(Barrier{});
    std::ranges::copy(session_.bind(plan_, level, level + 1), std::back_inserter(commands));
    commands.push_back(Barrier{});
    for (const WrittenTensor& each : written) commands.push_back(to_window(each));
    recording_ = session_.device().record(commands);
    ticket_ = session_.device().submit(recording_);
}

void ParitySide::finish() { session_.device().wait(ticket_); }

bool ParitySide::has_written(const WrittenTensor& written, std::size_t element) const {
    const std::size_t each = size_of(written.planned->type) / sizeof(std::uint32_t);
    return std::ranges::any_of(words(written).subspan(element * each, each),
                               [](std::uint32_t word) { return word != unwritten; });
}

void ParitySide::adopt(const ParitySide& other, std::span<const WrittenTensor> written) {
    std::vector<Command> commands;
    for (const WrittenTensor& each : written) {
        std::ranges::copy(other.words(each), words(each).begin());
        commands.push_back(from_window(each));
    }
    session_.device().run(commands);
}

Copy ParitySide::to_window(const WrittenTensor& written) const {
    return {session_.slice(*written.planned), {&window_, written.window_offset, written.planned->bytes}};
}

Copy ParitySide::from_window(const WrittenTensor& written) const {
    const Copy there = to_window(written);
    return {there.target, there.source};
}

} // namespace towers
