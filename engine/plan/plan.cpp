#include "engine/plan/plan.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace towers {

TensorId Plan::tensor(std::string name, Arena arena, std::size_t offset, std::size_t bytes) {
    auto& size = arena_bytes_[std::size_t(arena)];
    size = std::max(size, aligned(offset + bytes));
    tensors_.push_back({std::move(name), arena, offset, bytes});
    return TensorId(tensors_.size() - 1);
}

TensorId Plan::activation(std::string name, std::size_t bytes) {
    tensors_.push_back({std::move(name), Arena::activations, 0, bytes});
    return TensorId(tensors_.size() - 1);
}

const PlannedTensor& Plan::find(const std::string& name) const {
    for (const PlannedTensor& tensor : tensors_)
        if (tensor.name == name) return tensor;
    throw std::logic_error("plan: no tensor " + name);
}

const char* kernel_name(const Operation& operation) {
    const auto* launch = std::get_if<Launch>(&operation.work);
    return launch != nullptr ? kernel_info(launch->kernel).name : "copy";
}

std::vector<Plan::Use> Plan::uses(const Operation& operation) const {
    if (const auto* copy = std::get_if<PlannedCopy>(&operation.work))
        return {{copy->source.index(), false}, {copy->target.index(), true}};
    const Launch& launch = std::get<Launch>(operation.work);
    std::vector<Use> used;
    const auto pointers = kernel_info(launch.kernel).pointers;
    for (std::size_t i = 0; i < pointers.size(); ++i)
        if (const TensorId id = TensorId::of(launch.parameters.pointer(i)))
            used.push_back({id.index(), pointers[i] != Access::read});
    return used;
}

bool Plan::overlap(std::size_t a, std::size_t b) const {
    if (a == b) return true;
    const PlannedTensor &one = tensors_[a], &other = tensors_[b];
    if (one.arena != other.arena || one.arena == Arena::activations) return false;
    return one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
}

void Plan::place() {
    make_levels();
    place_activations();
}

void Plan::make_levels() {
    std::vector<std::size_t> level(operations_.size(), 0);
    for (std::size_t later = 0; later < operations_.size(); ++later) {
        const std::vector<Use> wants = uses(operations_[later]);
        for (std::size_t earlier = 0; earlier < later; ++earlier) {
            const std::vector<Use> has = uses(operations_[earlier]);
            const bool depends = std::any_of(wants.begin(), wants.end(), [&](const Use& a) {
                return std::any_of(has.begin(), has.end(), [&](const Use& b) {
                    return (a.writes || b.writes) && overlap(a.tensor, b.tensor);
                });
            });
            if (depends) level[later] = std::max(level[later], level[earlier] + 1);
        }
        levels_.resize(std::max(levels_.size(), level[later] + 1));
        levels_[level[later]].push_back(operations_[later]);
    }
}

void Plan::place_activations() {
    struct Life {
        std::size_t first, last;
    };
    constexpr std::size_t never = SIZE_MAX;
    std::vector<Life> lives(tensors_.size(), {never, 0});
    for (std::size_t level = 0; level < levels_.size(); ++level)
        for (const Operation& operation : levels_[level])
            for (const Use& use : uses(operation)) {
                lives[use.tensor].first = std::min(lives[use.tensor].first, level);
                lives[use.tensor].last = level;
            }

    // The largest first, each at the lowest place that is free while it is alive.
    std::vector<std::size_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return tensors_[a].bytes > tensors_[b].bytes; });
    std::vector<std::size_t> placed;
    for (const std::size_t index : order) {
        PlannedTensor& tensor = tensors_[index];
        if (tensor.arena != Arena::activations || lives[index].first == never) continue;
        std::vector<const PlannedTensor*> neighbours;
        for (const std::size_t other : placed)
            if (lives[other].first <= lives[index].last && lives[index].first <= lives[other].last)
                neighbours.push_back(&tensors_[other]);
        std::sort(neighbours.begin(), neighbours.end(),
                  [](const PlannedTensor* a, const PlannedTensor* b) { return a->offset < b->offset; });
        std::size_t offset = 0;
        for (const PlannedTensor* neighbour : neighbours) {
            if (offset + aligned(tensor.bytes) <= neighbour->offset) break;
            offset = std::max(offset, neighbour->offset + aligned(neighbour->bytes));
        }
        tensor.offset = offset;
        auto& size = arena_bytes_[std::size_t(Arena::activations)];
        size = std::max(size, offset + aligned(tensor.bytes));
        placed.push_back(index);
    }
}

std::vector<Command> Plan::bind(std::span<const Buffer* const, arena_count> arenas, std::size_t first,
                                std::size_t last) const {
    const auto address = [&](TensorId id) {
        const PlannedTensor& tensor = tensors_[id.index()];
        return arenas[std::size_t(tensor.arena)]->address() + tensor.offset;
    };
    const auto slice = [&](TensorId id) -> BufferSlice {
        const PlannedTensor& tensor = tensors_[id.index()];
        return {arenas[std::size_t(tensor.arena)], tensor.offset, tensor.bytes};
    };
    std::vector<Command> commands;
    for (std::size_t level = first; level < last; ++level) {
        if (level > first) commands.push_back(Barrier{});
        for (const Operation& operation : levels_[level]) {
            if (const auto* copy = std::get_if<PlannedCopy>(&operation.work)) {
                commands.push_back(Copy{slice(copy->source), slice(copy->target)});
                continue;
            }
            Launch bound = std::get<Launch>(operation.work);
            for (std::size_t i = 0; i < kernel_info(bound.kernel).pointers.size(); ++i)
                if (const TensorId id = TensorId::of(bound.parameters.pointer(i)))
                    bound.parameters.set_pointer(i, address(id));
            commands.push_back(bound);
        }
    }
    return commands;
}

} // namespace towers
