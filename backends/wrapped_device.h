// A device that passes everything on to another device: a base class for devices that change or observe
// something.
#pragma once

#include "backends/device.h"

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace towers {

/// Nothing else may use the other device.
class WrappedDevice : public Device {
public:
    explicit WrappedDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

    const DeviceInfo& info() const override { return device_->info(); }
    std::uint64_t free_memory() const override { return device_->free_memory(); }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        return device_->candidates(launch);
    }
    bool save_scratch() override { return device_->save_scratch(); }

protected:
    struct WrappedRecording : RecordingState {
        Recording recording; ///< the other device's
        explicit WrappedRecording(Recording theirs) : recording(std::move(theirs)) {}
    };

    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override;
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override { device_->wait(submission.ticket); }
    void do_finish() noexcept override { device_->finish(); }
    std::vector<double> do_timestamps(const RecordingState& recording) const override;
    std::size_t do_scratch_bytes(const Launch& launch) const override {
        return device_->scratch_bytes(launch);
    }

    /// Translates commands to the other device's. Recordings made from them must be WrappedRecordings for
    /// do_submit() and do_timestamps().
    Recording record_theirs(std::span<const Command> commands, const Buffer* scratch = nullptr);
    /// The bytes of all existing buffers.
    std::uint64_t allocated() const;
    /// The other device's memory at an address; do_record() takes such slices too.
    BufferSlice slice_at(std::uint64_t address, std::size_t bytes) const;

    Device& theirs() { return *device_; }
    /// Leaves this one without the other device. Nothing of this one may exist any more.
    std::unique_ptr<Device> release() { return std::move(device_); }

private:
    std::unique_ptr<Device> device_;
    std::set<const Buffer*> buffers_; ///< the other device's
};

} // namespace towers
