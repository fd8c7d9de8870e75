#include "backends/lost_device.h"

#include "backends/watched_device.h"

#include <cstdlib>
#include <new>
#include <string>
#include <utility>

namespace towers {
namespace {

/// Zeroed memory, of which the system gives only the pages that are touched.
struct HostAllocation : Allocation {
    explicit HostAllocation(std::size_t size) {
        constexpr std::size_t alignment = 256;
        block_ = std::calloc(1, size + alignment);
        if (block_ == nullptr) throw std::bad_alloc();
        address = (reinterpret_cast<std::uint64_t>(block_) + alignment - 1) / alignment * alignment;
        host = reinterpret_cast<std::byte*>(address);
        bytes = size;
    }
    HostAllocation(const HostAllocation&) = delete;
    HostAllocation& operator=(const HostAllocation&) = delete;
    ~HostAllocation() override { std::free(block_); }

private:
    void* block_;
};

class LostDevice final : public Device {
public:
    LostDevice(DeviceInfo info, const DeviceLost& cause)
        : info_(std::move(info)), cause_(cause.what()),
          is_silent_(dynamic_cast<const NoAnswer*>(&cause) != nullptr) {}
    const DeviceInfo& info() const override { return info_; }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        if (memory == Memory::staging) return std::make_unique<HostAllocation>(bytes);
        auto nothing = std::make_unique<Allocation>();
        nothing->address = next_address_;
        nothing->bytes = bytes;
        next_address_ += (bytes + 255) / 256 * 256;
        return nothing;
    }
    std::unique_ptr<RecordingState> do_record(std::span<const Command>, const Buffer*) override {
        return std::make_unique<RecordingState>();
    }
    void do_submit(const RecordingState& recording, Submission, std::span<const Submission>) override {
        if (!recording.launches) return;
        if (is_silent_) throw NoAnswer(cause_);
        throw DeviceLost(cause_);
    }
    void do_wait(Submission) override {}
    void do_finish() noexcept override {}
    std::vector<double> do_timestamps(const RecordingState&) const override { return {}; }

private:
    DeviceInfo info_;
    std::string cause_;
    bool is_silent_;                   ///< a NoAnswer
    std::uint64_t next_address_ = 256; ///< of memory that does not exist
};

} // namespace

std::unique_ptr<Device> make_lost_device(const DeviceInfo& info, const DeviceLost& cause) {
    return std::make_unique<LostDevice>(info, cause);
}

} // namespace towers
