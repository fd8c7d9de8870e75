// Runs plans on a device: has memory for their arenas and binds them to it.
#pragma once

#include "backends/device.h"
#include "engine/data/feed.h"
#include "engine/optimizers/optimizer.h"
#include "engine/plan/plan.h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// What a step reports.
struct StepResults {
    float total_loss,
        cross_entropy; ///< of one tower of several: its part of the global batch's mean, no decay
    bool finite;       ///< the loss and, where they are checked, the gradients
};

/// One thread at a time uses a session, and those that share its device or memory. Its calls throw
/// DeviceError and, for want of memory, OutOfMemory.
class Session {
public:
    enum class Place {
        by_arena, ///< staging memory for the arenas that the host uses
        host,     ///< staging memory for all: the device is the host's processor
    };
    /// Without memory yet. The device must outlive it.
    explicit Session(Device& device, Place place = Place::by_arena) : device_(&device), place_(place) {}
    /// On the same device, and in the same memory for the arenas that `shares` names.
    Session(const Session& other, bool (*shares)(Arena));

    Device& device() const { return *device_; }
    /// The bytes of each arena; 0: it has no memory.
    ArenaBytes bytes() const;
    bool holds(const ArenaBytes& bytes) const;
    /// Gives zeroed memory to the arenas that are too small. They lose what they had, and what was recorded
    /// with it must be gone. When memory is refused, each has at least the bytes of before.
    void hold(const ArenaBytes& bytes);
    void release(Arena arena) { arenas_[std::size_t(arena)].reset(); }

    /// The commands of a plan's levels [first, last), as Plan::bind() gives them.
    std::vector<Command> bind(const Plan& plan, std::size_t first, std::size_t last) const;
    std::vector<Command> bind(const Plan& plan) const { return bind(plan, 0, plan.levels().size()); }
    Recording record(const Plan& plan) const { return device_->record(bind(plan)); }
    void run(const Recording& recording) const { device_->wait(device_->submit(recording)); }

    /// Copies to and from the beginning of an arena of device memory, and waits.
    void upload(Arena arena, std::span<const float> values) const;
    void download(Arena arena, std::span<float> values) const;
    /// Has the feed bring to Arena::records what stays there.
    void load(Feed& feed) const;

    /// What a step reads from Arena::step.
    void write(const StepNumbers& numbers) const;
    void write(std::span<const Example> examples) const;
    /// What a step of training has left in Arena::staged_results.
    StepResults results() const;

    BufferSlice slice(Arena arena, std::size_t offset, std::size_t bytes) const;
    BufferSlice slice(const PlannedTensor& tensor) const {
        return slice(tensor.arena, tensor.offset, tensor.bytes);
    }
    /// The host's view of an arena, or of a tensor, in staging memory.
    template<class T>
    std::span<T> host(Arena arena) const {
        return buffer(arena).host<T>();
    }
    template<class T>
    std::span<T> host(const PlannedTensor& tensor) const {
        return host<T>(tensor.arena).subspan(tensor.offset / sizeof(T), tensor.bytes / sizeof(T));
    }

private:
    const Buffer& buffer(Arena arena) const { return *arenas_[std::size_t(arena)]; }

    Device* device_;
    Place place_;
    std::array<std::shared_ptr<const Buffer>, arena_count> arenas_; ///< null: no memory
};

} // namespace towers
