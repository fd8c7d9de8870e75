#include "engine/plan/plan.h"

#include "backends/error.h"
#include "engine/plan/shape.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace towers {

TensorId Plan::tensor(std::string name, Arena arena, std::size_t offset, TensorShape shape,
                      ElementType type) {
    const std::size_t bytes = elements_of(shape) * size_of(type);
    auto& size = arena_bytes_[std::size_t(arena)];
    size = std::max(size, aligned(offset + bytes));
    tensors_.push_back({std::move(name), std::move(shape), type, arena, offset, bytes});
    return TensorId(tensors_.size() - 1);
}

TensorId Plan::reserve(std::string name, Arena arena, TensorShape shape, ElementType type) {
    return tensor(std::move(name), arena, bytes(arena), std::move(shape), type);
}

TensorId Plan::part(std::string name, TensorId list, std::size_t first, std::size_t count) {
    const PlannedTensor& whole = at(list);
    return tensor(std::move(name), whole.arena, whole.offset + first * size_of(whole.type), {count},
                  whole.type);
}

TensorId Plan::joined(std::string name, std::span<const TensorId> lists) {
    if (lists.size() < 2) return lists.empty() ? TensorId() : lists[0];
    const Arena arena = at(lists[0]).arena;
    const std::size_t begin = at(lists[0]).offset;
    std::size_t end = begin;
    for (const TensorId list : lists) {
        const PlannedTensor& next = at(list);
        if (next.arena != arena || next.type != ElementType::float32 || next.offset != aligned(end))
            throw std::logic_error("plan: to be joined, lists of float32 must follow each other: " +
                                   next.name);
        end = next.offset + next.bytes;
    }
    return tensor(std::move(name), arena, begin, {(end - begin) / sizeof(float)});
}

TensorId Plan::shared(const Plan& other, TensorId id) {
    const PlannedTensor& own = other.at(id);
    return tensor(own.name, own.arena, own.offset, own.shape, own.type);
}

TensorId Plan::activation(std::string name, TensorShape shape, ElementType type) {
    const std::size_t elements = elements_of(shape);
    if (elements > most_elements)
        throw UsageError(fmt::format("a share of {} examples is too large for one tower: at most {} fit; use "
                                     "a smaller --batch or more towers",
                                     shape[0], most_elements / (elements / shape[0])));
    tensors_.push_back(
        {std::move(name), std::move(shape), type, Arena::activations, 0, elements * size_of(type)});
    return TensorId(tensors_.size() - 1);
}

const PlannedTensor& Plan::find(const std::string& name) const {
    for (const PlannedTensor& tensor : tensors_)
        if (tensor.name == name) return tensor;
    throw std::logic_error("plan: no tensor " + name);
}

const char* kernel_name(const Operation& operation) {
    if (const auto* launch = std::get_if<Launch>(&operation.work)) return kernel_info(launch->kernel).name;
    return std::holds_alternative<PlannedCopy>(operation.work) ? "copy" : "exchange";
}

std::vector<Plan::Use> Plan::uses(const Operation& operation) {
    if (const auto* copy = std::get_if<PlannedCopy>(&operation.work))
        return {{copy->source, true, false}, {copy->target, false, true}};
    if (const auto* exchange = std::get_if<PlannedExchange>(&operation.work)) {
        std::vector<Use> used;
        for (const TensorId given : exchange->given) used.push_back({given, true, false});
        for (const TensorId merged : exchange->merged) used.push_back({merged, false, true});
        return used;
    }
    const Launch& launch = std::get<Launch>(operation.work);
    std::vector<Use> used;
    const auto pointers = kernel_info(launch.kernel).pointers;
    for (std::size_t i = 0; i < pointers.size(); ++i)
        if (const TensorId id = TensorId::of(launch.parameters.pointer(i)))
            used.push_back({id, pointers[i] != Access::write, pointers[i] != Access::read});
    return used;
}

TensorPair Plan::exchange(const std::string& name, const TensorPair& given, Merge merge, double values) {
    TensorPair back;
    PlannedExchange exchange{.given = {}, .merged = {}, .merge = merge, .values = values};
    const auto staged = [&](const std::string& what, const TensorShape& shape) {
        return reserve(name + what, Arena::staged_exchanges, shape);
    };
    for (std::size_t i = 0; i < given.size(); ++i) {
        const PlannedTensor own = at(given[i]); // a copy: the list of tensors grows
        exchange.given[i] = staged(fmt::format(" given {}", i + 1), own.shape);
        exchange.merged[i] = staged(fmt::format(" merged {}", i + 1), own.shape);
        back[i] = activation(own.name + " of all", own.shape);
        copy(fmt::format("{} out {}", name, i + 1), given[i], exchange.given[i]);
    }
    operations_.push_back({name, exchange});
    for (std::size_t i = 0; i < given.size(); ++i)
        copy(fmt::format("{} in {}", name, i + 1), exchange.merged[i], back[i]);
    return back;
}

/// Kernels would wait for each word that they read from the host's memory.
void Plan::receive_step() {
    if (bytes(Arena::step) == 0) return;
    const TensorShape words{bytes(Arena::step) / sizeof(std::uint32_t)};
    const TensorId staged = tensor("staged step", Arena::staged_step, 0, words, ElementType::uint32);
    const TensorId here = tensor("whole step", Arena::step, 0, words, ElementType::uint32);
    operations_.insert(operations_.begin(), {"step in", PlannedCopy{staged, here}});
}

void Plan::check_tensors(const Operation& operation) const {
    const auto* launch = std::get_if<Launch>(&operation.work);
    if (launch == nullptr) return;
    const KernelInfo& kernel = kernel_info(launch->kernel);
    for (std::size_t i = 0; i < kernel.pointers.size(); ++i)
        if (const TensorId id = TensorId::of(launch->parameters.pointer(i))) {
            const PlannedTensor& tensor = tensors_[id.index()];
            if (!can_point_to(kernel.elements[i], tensor.type))
                throw std::logic_error(fmt::format("plan: '{}' gives {} a tensor of another type: {}",
                                                   operation.name, kernel.name, tensor.name));
            if (is_staging(tensor.arena))
                throw std::logic_error(fmt::format("plan: '{}' lets {} reach staging memory: {}",
                                                   operation.name, kernel.name, tensor.name));
        }
}

void Plan::place(std::uint64_t largest) {
    receive_step();
    for (const Operation& operation : operations_) check_tensors(operation);
    make_levels();
    place_activations(largest);
}

void Plan::make_levels() {
    // By tensor: the first level that may read it, and the first that may write it again. Slices of a fixed
    // arena may overlap, so each slice is checked against the others in its arena.
    struct Free {
        std::size_t read = 0, write = 0;
    };
    std::vector<Free> free(tensors_.size());
    std::array<std::vector<std::size_t>, arena_count> used;
    // Exchanges keep their order: otherwise towers with different levels could wait for each other's
    // exchanges forever.
    std::size_t last_exchange = 0;
    const auto for_each_overlapping = [&](std::size_t index, const auto& visit) {
        const PlannedTensor& tensor = tensors_[index];
        if (tensor.arena == Arena::activations) return visit(free[index]);
        for (const std::size_t other : used[std::size_t(tensor.arena)])
            if (overlap(tensors_[other], tensor)) visit(free[other]);
    };
    for (const Operation& operation : operations_) {
        const std::vector<Use> uses_of_it = uses(operation);
        std::size_t level = 0;
        for (const Use& use : uses_of_it)
            for_each_overlapping(use.tensor.index(), [&](const Free& each) {
                level = std::max({level, each.read, use.writes ? each.write : 0});
            });
        if (std::holds_alternative<PlannedExchange>(operation.work))
            level = last_exchange = std::max(level, last_exchange);
        for (const Use& use : uses_of_it) {
            const std::size_t index = use.tensor.index();
            auto& slices = used[std::size_t(tensors_[index].arena)];
            if (tensors_[index].arena != Arena::activations &&
                std::ranges::find(slices, index) == slices.end())
                slices.push_back(index);
            free[index].write = std::max(free[index].write, level + 1);
            if (use.writes) free[index].read = std::max(free[index].read, level + 1);
        }
        levels_.resize(std::max(levels_.size(), level + 1));
        levels_[level].push_back(operation);
    }
}

void Plan::place_activations(std::uint64_t largest) {
    struct Life {
        std::size_t first, last;
    };
    constexpr std::size_t never = SIZE_MAX;
    std::vector<Life> lives(tensors_.size(), {never, 0});
    for (std::size_t level = 0; level < levels_.size(); ++level)
        for (const Operation& operation : levels_[level])
            for (const Use& use : uses(operation)) {
                Life& life = lives[use.tensor.index()];
                life.first = std::min(life.first, level);
                life.last = level;
            }

    // Places the largest first, each at the lowest free offset of the first arena with room during its
    // lifetime.
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
        std::ranges::sort(neighbours, {},
                          [](const PlannedTensor* each) { return std::pair(each->arena, each->offset); });
        // The end of the conflicting tensors so far, a candidate for the tensor's offset
        std::size_t offset = 0;
        const auto pass_arena = [&] {
            if (offset + aligned(tensor.bytes) <= largest) return false;
            tensor.arena = Arena(std::size_t(tensor.arena) + 1);
            offset = 0;
            return true;
        };
        for (const PlannedTensor* neighbour : neighbours) {
            while (tensor.arena < neighbour->arena && pass_arena()) {
            }
            if (tensor.arena < neighbour->arena || offset + aligned(tensor.bytes) <= neighbour->offset) break;
            offset = std::max(offset, neighbour->offset + aligned(neighbour->bytes));
        }
        while (offset > 0 && tensor.arena < Arena::last_activations && pass_arena()) {
        }
        tensor.offset = offset;
        auto& size = arena_bytes_[std::size_t(tensor.arena)];
        size = std::max(size, offset + aligned(tensor.bytes));
        placed.push_back(index);
    }
}

std::vector<Command> Plan::bind(std::span<const Buffer* const, arena_count> arenas, std::size_t first,
                                std::size_t last) const {
    const auto address = [&](TensorId id) {
        const PlannedTensor& tensor = at(id);
        return arenas[std::size_t(tensor.arena)]->address() + tensor.offset;
    };
    const auto slice = [&](TensorId id) -> BufferSlice {
        const PlannedTensor& tensor = at(id);
        return {arenas[std::size_t(tensor.arena)], tensor.offset, tensor.bytes};
    };
    std::vector<Command> commands;
    for (std::size_t level = first; level < last; ++level) {
        if (level > first) commands.push_back(Barrier{});
        for (const Operation& operation : levels_[level]) {
            if (const auto* copy = std::get_if<PlannedCopy>(&operation.work)) {
                commands.push_back(Copy{slice(copy->source), slice(copy->target), operation.name});
                continue;
            }
            if (std::holds_alternative<PlannedExchange>(operation.work)) continue;
            Launch bound = std::get<Launch>(operation.work);
            for (std::size_t i = 0; i < kernel_info(bound.kernel).pointers.size(); ++i)
                if (const TensorId id = TensorId::of(bound.parameters.pointer(i))) {
                    bound.parameters.set_pointer(i, address(id));
                    bound.extents[i] = at(id).bytes;
                }
            bound.label = operation.name;
            commands.push_back(bound);
        }
    }
    return commands;
}

} // namespace towers
