#include "engine/parity/side.h"

#include "engine/plan/network.h"
#include "engine/towers/upload.h"

#include <algorithm>
#include <iterator>

namespace towers {

std::vector<WrittenTensor> written_in(const Plan& plan, const Level& level) {
    std::vector<WrittenTensor> all;
    std::size_t end = 0;
    for (const Operation& operation : level) {
        for (const Plan::Use& use : Plan::uses(operation)) {
            if (!use.writes) continue;
            const PlannedTensor& tensor = plan.tensors()[use.tensor.index()];
            const bool words = tensor.type == ElementType::uint32;
            all.push_back({&operation, use.tensor, words, use.reads, end, tensor.bytes});
            end += aligned(tensor.bytes);
        }
    }
    return all;
}

std::vector<std::vector<WrittenTensor>> written_in(const Plan& plan) {
    std::vector<std::vector<WrittenTensor>> levels;
    for (const Level& level : plan.levels()) levels.push_back(written_in(plan, level));
    return levels;
}

std::size_t window_bytes(std::span<const std::vector<WrittenTensor>> levels) {
    std::size_t bytes = 0;
    for (const std::vector<WrittenTensor>& level : levels)
        bytes = std::max(bytes, level.back().window_offset + level.back().bytes);
    return bytes;
}

std::vector<std::size_t> index_in(const TensorShape& shape, std::size_t element) {
    std::vector<std::size_t> index(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis])
        index[axis] = element % shape[axis];
    return index;
}

ParitySide::ParitySide(Device& device, const Plan& plan, const Dataset& data, std::size_t window_bytes)
    : device_(device), plan_(plan), arenas_(allocate_arenas(device, plan, data)),
      window_(device.allocate(window_bytes, Memory::staging)) {}

void ParitySide::prepare(std::span<const float> state, const StepNumbers& numbers,
                         std::span<const Example> examples) {
    const std::size_t held = plan_.bytes(Arena::state) / sizeof(float);
    upload(device_, arena(Arena::state), std::as_bytes(state.first(held)));
    write_step(arena(Arena::step), numbers, examples);
    if (const std::size_t bytes = plan_.bytes(Arena::staged_parameters))
        std::ranges::copy(state.first(bytes / sizeof(float)),
                          arena(Arena::staged_parameters).host<float>().begin());
}

void ParitySide::start(std::size_t level, std::span<const WrittenTensor> written) {
    std::vector<Command> commands;
    for (const WrittenTensor& each : written) {
        if (each.read) continue;
        std::ranges::fill(words(each), unwritten);
        commands.push_back(Copy{window(each), memory(each)});
    }
    commands.push_back(Barrier{});
    std::ranges::copy(plan_.bind(pointers_to(arenas_), level, level + 1), std::back_inserter(commands));
    commands.push_back(Barrier{});
    for (const WrittenTensor& each : written) commands.push_back(Copy{memory(each), window(each)});
    recording_ = device_.record(commands);
    ticket_ = device_.submit(recording_);
}

void ParitySide::finish() { device_.wait(ticket_); }

void ParitySide::adopt(const ParitySide& other, std::span<const WrittenTensor> written) {
    std::vector<Command> commands;
    for (const WrittenTensor& each : written) {
        std::ranges::copy(other.words(each), words(each).begin());
        commands.push_back(Copy{window(each), memory(each)});
    }
    device_.run(commands);
}

BufferSlice ParitySide::window(const WrittenTensor& written) const {
    return {&window_, written.window_offset, written.bytes};
}

BufferSlice ParitySide::memory(const WrittenTensor& written) const {
    const PlannedTensor& tensor = plan_.tensors()[written.tensor.index()];
    return {&arena(tensor.arena), tensor.offset, tensor.bytes};
}

} // namespace towers
