// Runs plans on a device: owns the memory of their arenas and binds plans to it.
#pragma once

#include "backends/device.h"
#include "engine/data/batch.h"
#include "engine/data/feed.h"
#include "engine/optimizers/optimizer.h"
#include "engine/plan/plan.h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// The results of a step.
struct StepResults {
    float total_loss,
        cross_entropy; ///< without weight decay; with several towers, its part of the global mean
    bool finite;       ///< whether the loss and, if checked, the gradients are finite
};

/// Only one thread at a time may use a session or others that share its device or memory. Calls throw
/// DeviceError, or OutOfMemory.
class Session {
public:
    enum class Place {
        by_arena, ///< staging memory for the arenas that the host uses
        host,     ///< staging memory for all arenas: the device is the host's processor
    };
    /// Makes a session without memory. The device must outlive it.
    explicit Session(Device& device, Place place = Place::by_arena) : device_(&device), place_(place) {}
    /// Makes a session on the same device, which uses the same memory for the arenas in `shares`.
    Session(const Session& other, bool (*shares)(Arena));
    /// Uses the memory of another session's arena on the same device as this one's arena `as`.
    void borrow(const Session& other, Arena arena, Arena as) {
        arenas_[std::size_t(as)] = other.arenas_[std::size_t(arena)];
    }

    Device& device() const { return *device_; }
    /// The bytes of each arena; 0: no memory.
    ArenaBytes bytes() const;
    bool holds(const ArenaBytes& bytes) const;
    /// What the plan needs, with the device's scratch memory.
    ArenaBytes needs(const Plan& plan) const;
    /// Allocates zeroed memory for arenas that are too small. They lose their contents, and recordings that
    /// used them must have been destroyed. If an allocation fails, each arena still has at least its earlier
    /// size.
    void hold(const ArenaBytes& bytes);
    void release(Arena arena) { arenas_[std::size_t(arena)].reset(); }

    /// The commands of a plan's levels [first, last), as Plan::bind() gives them.
    std::vector<Command> bind(const Plan& plan, std::size_t first, std::size_t last) const;
    std::vector<Command> bind(const Plan& plan) const { return bind(plan, 0, plan.levels().size()); }
    /// Records them. Without enough memory in Arena::scratch the recording has its own.
    Recording record(const Plan& plan, std::size_t first, std::size_t last) const;
    Recording record(const Plan& plan) const { return record(plan, 0, plan.levels().size()); }
    void run(const Recording& recording) const { device_->wait(device_->submit(recording)); }

    /// Copies to and from the beginning of an arena of device memory, and waits.
    void upload(Arena arena, std::span<const float> values) const;
    void download(Arena arena, std::span<float> values) const;
    /// Brings all images to Arena::records; see load_images().
    void load(const DataSource& images) const;

    /// Writes the inputs of a step into Arena::staged_step.
    void write(const StepNumbers& numbers) const;
    void write(std::span<const Example> examples) const;
    /// The same of a training step's batch: the examples' partners, and its tables. `placed`:
    /// with_partners(), in the slots where their images are.
    void write(const Batch& batch, std::span<const Example> placed) const;
    void write(const Batch& batch) const { write(batch, with_partners(batch)); }
    /// Reads a training step's results from Arena::staged_results.
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
