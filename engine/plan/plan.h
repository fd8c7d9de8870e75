// A step as data: its tensors, their places in memory, and its launches and copies, in levels. Nothing here
// touches a device.
#pragma once

#include "backends/arithmetic.h"
#include "backends/device.h"
#include "engine/plan/shape.h"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace towers {

/// Flat allocations; tensors are slices of them.
enum class Arena {
    state,       ///< everything that outlives a step, laid out as StateLayout says
    gradients,   ///< of the trained variables, and the step's statistics, in the same layout
    micro_batch, ///< of a step in micro-batches: the present one's gradients, laid out alike, examples,
                 ///< losses
    step,        ///< the step's numbers and examples, copied from `staged_step`
    results,
    records,     ///< images of the data set: all, as load_images() brings them, or those of a step
    scratch,     ///< for launches' own use; of no plan, since its size depends on the device
    activations, ///< everything that lives within a step; the plan lets tensors share it over time
    /// There are further arenas of activations, for a device that has more memory than one allocation may
    /// take.
    last_activations = activations + 63,
    staged_step,       ///< staging: what the host writes before a step
    staged_records,    ///< staging: images of a step on their way to `records`
    staged_results,    ///< staging: what the host reads after a step
    staged_gradients,  ///< staging
    staged_parameters, ///< staging
    staged_exchanges,  ///< staging: what towers exchange within a step
    staged_state,      ///< staging: three states of a tower that updates it alone
    count
};
constexpr std::size_t arena_count = std::size_t(Arena::count);
/// Of each arena.
using ArenaBytes = std::array<std::size_t, arena_count>;

constexpr bool is_staging(Arena arena) { return arena >= Arena::staged_step; }
constexpr bool is_of_activations(Arena arena) {
    return arena >= Arena::activations && arena <= Arena::last_activations;
}
/// Of what lives only within a step
constexpr bool is_transient(Arena arena) { return is_of_activations(arena) || arena == Arena::scratch; }

struct PlannedTensor {
    std::string name;
    TensorShape shape;
    ElementType type;
    Arena arena;        ///< an activation's is Arena::activations until Plan::place()
    std::size_t offset; ///< in bytes; an activation's is set by Plan::place()
    std::size_t bytes;
};

/// Identifies a tensor of a plan. Until the plan is bound to memory, it also stands in a parameter block's
/// pointers.
class TensorId {
public:
    TensorId() = default; ///< no tensor: a null pointer
    explicit TensorId(std::size_t index) : value_(index + 1) {}
    explicit operator bool() const { return value_ != 0; }
    bool operator==(const TensorId&) const = default;
    std::size_t index() const { return value_ - 1; }
    static TensorId of(std::uint64_t pointer) {
        TensorId id;
        id.value_ = pointer;
        return id;
    }

    template<class T>
    operator In<T>() const {
        return {reinterpret_cast<const T*>(value_)};
    }
    template<class T>
    operator Out<T>() const {
        return {reinterpret_cast<T*>(value_)};
    }
    template<class T>
    operator InOut<T>() const {
        return {reinterpret_cast<T*>(value_)};
    }

private:
    std::uint64_t value_ = 0;
};

/// Whether two slices of an arena overlap.
constexpr bool overlap(const auto& a, const auto& b) {
    return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

struct PlannedCopy {
    TensorId source, target;
};

/// Two lists of equal length that belong together, such as the channels' means and M2s.
using TensorPair = std::array<TensorId, 2>;

/// How the host merges the lists that the towers hand over at an exchange.
enum class Merge : std::uint8_t {
    sum,     ///< adds them up
    moments, ///< the mean and M2 of all values from those of the towers' (Chan et al. 1979)
};

/// A point within the step at which all towers hand over lists in staging memory, and each gets back the
/// merged lists. The host does this between two recordings.
struct PlannedExchange {
    TensorPair given, merged; ///< float32, in Arena::staged_exchanges
    Merge merge;
    double values; ///< of this tower that each element sums up
};

/// One piece of a step's work.
struct Operation {
    std::string name; ///< layer and role, `conv2 forward`; unique in a plan
    std::variant<Launch, PlannedCopy, PlannedExchange> work; ///< a launch's pointers are tensor ids
};

/// The name in shaders/kernels.def, or `copy`, or `exchange`.
const char* kernel_name(const Operation& operation);

/// Operations that do not depend on each other.
using Level = std::vector<Operation>;

class Plan {
public:
    /// A slice of a fixed arena, at a place that others know.
    TensorId tensor(std::string name, Arena arena, std::size_t offset, TensorShape shape,
                    ElementType type = ElementType::float32);
    /// A slice of a fixed arena that begins after all that the plan has there so far.
    TensorId reserve(std::string name, Arena arena, TensorShape shape,
                     ElementType type = ElementType::float32);
    /// `count` elements of a list in a fixed arena.
    TensorId part(std::string name, TensorId list, std::size_t first, std::size_t count);
    /// The slice from the first of these float32 lists, which were reserved one after the other, to the end
    /// of the last. The gaps between them are zero: new memory is, and nothing writes there. One list is
    /// returned as it is; of none it is no tensor.
    TensorId joined(std::string name, std::span<const TensorId> lists);
    /// The slice of a fixed arena that is a tensor of another plan.
    TensorId shared(const Plan& other, TensorId tensor);
    /// A new activation, which place() gives its place. Throws UsageError if the share makes it too large.
    TensorId activation(std::string name, TensorShape shape, ElementType type = ElementType::float32);

    /// The name tells measurements and comparisons which part of the step this is.
    template<class Params>
    void add(std::string name, KernelHandle<Params> kernel, const std::type_identity_t<Params>& params) {
        operations_.push_back({std::move(name), launch(kernel, params)});
    }
    void copy(std::string name, TensorId source, TensorId target) {
        operations_.push_back({std::move(name), PlannedCopy{source, target}});
    }
    /// Hands over two of the tower's lists and returns the merged ones. All towers' plans must have the same
    /// exchanges in the same order.
    TensorPair exchange(const std::string& name, const TensorPair& given, Merge merge, double values);

    /// The operations in the order in which they were added, for passes over the plan before place().
    std::vector<Operation>& operations() { return operations_; }
    /// The tensors that an operation uses.
    struct Use {
        TensorId tensor;
        bool reads, writes;
    };
    static std::vector<Use> uses(const Operation& operation);

    /// Lets the plan begin with the copy of Arena::staged_step to Arena::step, if it uses that; then puts
    /// each operation into the earliest level after its dependencies, and lets activations that are not alive
    /// at the same time share memory. Call it once, after the last operation. `largest`: the most bytes of an
    /// activations' arena, unless a single activation needs more. Throws std::logic_error if a tensor's
    /// element type does not fit its kernel, or if a kernel would reach staging memory.
    void place(std::uint64_t largest = UINT64_MAX);

    const std::vector<PlannedTensor>& tensors() const { return tensors_; }
    const PlannedTensor& at(TensorId tensor) const { return tensors_[tensor.index()]; }
    /// Of a tensor; 0 of none.
    unsigned elements(TensorId tensor) const { return tensor ? unsigned(elements_of(at(tensor).shape)) : 0; }
    const std::vector<Level>& levels() const { return levels_; }
    /// The bytes that an arena needs, and those of all.
    const ArenaBytes& bytes() const { return arena_bytes_; }
    std::size_t bytes(Arena arena) const { return arena_bytes_[std::size_t(arena)]; }
    /// The tensor of that name; throws std::logic_error when there is none.
    const PlannedTensor& find(const std::string& name) const;

    /// The commands of levels [first, last) with real addresses, and a barrier between consecutive levels;
    /// exchanges are left out. Launches have the extents of their tensors. The labels are the operations'
    /// names, whose memory the plan owns.
    std::vector<Command> bind(std::span<const Buffer* const, arena_count> arenas, std::size_t first,
                              std::size_t last) const;

private:
    void receive_step();
    void check_tensors(const Operation& operation) const;
    void make_levels();
    void place_activations(std::uint64_t largest);

    std::vector<PlannedTensor> tensors_;
    std::vector<Operation> operations_;
    std::vector<Level> levels_;
    ArenaBytes arena_bytes_{};
};

} // namespace towers
