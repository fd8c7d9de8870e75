#include "backends/vulkan/queues.h"

#include "backends/driver_call.h"

#include <algorithm>

namespace towers::vulkan {
namespace {

constexpr Work copies{vk::PipelineStageFlagBits2::eCopy, vk::AccessFlagBits2::eTransferRead,
                      vk::AccessFlagBits2::eTransferWrite};
constexpr Work kernels_and_copies{copies.stages | vk::PipelineStageFlagBits2::eComputeShader,
                                  copies.reads | vk::AccessFlagBits2::eShaderStorageRead,
                                  copies.writes | vk::AccessFlagBits2::eShaderStorageWrite};

Family open_family(const vk::raii::PhysicalDevice& physical, const vk::raii::Device& device,
                   std::uint32_t index, const Work& work) {
    const std::uint32_t bits = physical.getQueueFamilyProperties()[index].timestampValidBits;
    return {index, work, bits == 0 ? 0 : UINT64_MAX >> (64 - bits),
            vk::raii::CommandPool(device, {.queueFamilyIndex = index})};
}

} // namespace

vk::raii::CommandBuffer begin_commands(const vk::raii::Device& device, const Family& family) {
    vk::raii::CommandBuffer buffer = std::move(vk::raii::CommandBuffers(
        device, vk::CommandBufferAllocateInfo{.commandPool = *family.pool,
                                              .level = vk::CommandBufferLevel::ePrimary,
                                              .commandBufferCount = 1})[0]);
    buffer.begin(vk::CommandBufferBeginInfo{.flags = vk::CommandBufferUsageFlagBits::eSimultaneousUse});
    return buffer;
}

Queues::Queues(const vk::raii::PhysicalDevice& physical, const vk::raii::Device& device)
    : device_(device), timestamp_period_(double(physical.getProperties().limits.timestampPeriod) * 1e-9) {
    const auto places = queue_places(physical);
    families_.push_back(open_family(physical, device, places.front().family, kernels_and_copies));
    if (places.back().family != places.front().family)
        families_.push_back(open_family(physical, device, places.back().family, copies));
    const vk::SemaphoreTypeCreateInfo timeline{.semaphoreType = vk::SemaphoreType::eTimeline};
    for (std::size_t i = 0; i < queue_count; ++i) {
        const auto there = std::find_if(lanes_.begin(), lanes_.end(),
                                        [&](const Lane& lane) { return lane.place == places[i]; });
        lane_of_[i] = std::size_t(there - lanes_.begin());
        if (there == lanes_.end())
            lanes_.push_back({places[i], vk::raii::Queue(device, places[i].family, places[i].index),
                              vk::raii::Semaphore(device, {.pNext = &timeline})});
    }
}

template<class Wait>
auto Queues::wait(const Wait& wait) const -> decltype(wait()) {
    try {
        return wait();
    } catch (const vk::DeviceLostError&) { // nothing runs any more
        throw;
    } catch (const vk::SystemError&) { // such as no memory for the wait
        const DriverCall call("vkDeviceWaitIdle");
        device_.waitIdle();
        throw;
    }
}

void Queues::wait_for(const Lane& lane, Ticket ticket) const {
    const DriverCall call("vkWaitSemaphores");
    const vk::Result result = wait([&] {
        return device_.waitSemaphores(vk::SemaphoreWaitInfo{}.setSemaphores(*lane.timeline).setValues(ticket),
                                      UINT64_MAX);
    });
    if (result != vk::Result::eSuccess) throw DeviceError(vk::to_string(result));
}

void Queues::wait_for(const vk::raii::Queue& queue) const {
    const DriverCall call("vkQueueWaitIdle");
    wait([&] { queue.waitIdle(); });
}

void Queues::wait_for_all() const {
    for (const Lane& lane : lanes_) wait_for(lane, lane.submitted);
}

double Queues::seconds_at(std::uint64_t tick) const {
    std::uint64_t mask = UINT64_MAX; // of the bits that all families' counters have
    for (const Family& family : families_)
        if (family.timestamp_mask != 0) mask &= family.timestamp_mask;
    if (!last_tick_) last_tick_ = tick;
    const std::uint64_t ahead = (tick - *last_tick_) & mask;
    ticks_ += std::int64_t(ahead > mask / 2 ? ahead - mask - 1 : ahead);
    last_tick_ = tick;
    return double(ticks_) * timestamp_period_;
}

} // namespace towers::vulkan
