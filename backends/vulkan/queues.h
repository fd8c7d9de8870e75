// A device's queues: which of the driver's each Queue is, what its work may do, and its clock.
#pragma once

#include "backends/vulkan/headers.h"

#include "backends/vulkan/instance.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace towers::vulkan {

/// The pipeline stages of all commands.
struct Work {
    vk::PipelineStageFlags2 stages;
    vk::AccessFlags2 reads, writes;
};

/// A queue family that this device uses.
struct Family {
    std::uint32_t index;
    Work work;
    std::uint64_t timestamp_mask; ///< the valid bits; 0: its queues have no clock
    vk::raii::CommandPool pool;
};

/// A command buffer that has begun and may be submitted again and again.
vk::raii::CommandBuffer begin_commands(const vk::raii::Device& device, const Family& family);

/// A driver's queue, which several Queues may share.
struct Lane {
    QueuePlace place;
    vk::raii::Queue queue;
    vk::raii::Semaphore timeline; ///< its value is the last finished ticket
    Ticket submitted = 0;
};

/// Throws vk::SystemError where the driver fails, as do the functions below.
class Queues {
public:
    Queues(const vk::raii::PhysicalDevice& physical, const vk::raii::Device& device);

    /// The kernels' first, and the copies' if that is another.
    const std::vector<Family>& families() const { return families_; }
    const Family& kernels() const { return families_.front(); }

    Lane& lane_of(Queue queue) { return lanes_[lane_of_[std::size_t(queue)]]; }
    const Lane& first_lane() const { return lanes_.front(); }
    // If waiting fails, nothing runs any more when these throw: what the work uses may be destroyed.
    /// DeviceError when the driver gives up waiting.
    void wait_for(const Lane& lane, Ticket ticket) const;
    /// For all that has been submitted to it.
    void wait_for(const vk::raii::Queue& queue) const;
    /// For all that has been submitted.
    void wait_for_all() const;

    /// Seconds since the first moment that was ever read, of a timestamp in ticks. The counter may wrap: of
    /// moments that are read one after another, none is further than half its period from the one before.
    double seconds_at(std::uint64_t tick) const;

private:
    /// Calls `wait`; if that fails, waits for the whole device before it throws.
    template<class Wait>
    auto wait(const Wait& wait) const -> decltype(wait());

    const vk::raii::Device& device_;
    std::vector<Family> families_;
    std::vector<Lane> lanes_; ///< the first is Queue::compute's
    std::array<std::size_t, queue_count> lane_of_{};
    double timestamp_period_;                        ///< seconds per tick
    mutable std::optional<std::uint64_t> last_tick_; ///< that was read
    mutable std::int64_t ticks_ = 0;                 ///< from the first reading to the last
};

} // namespace towers::vulkan
