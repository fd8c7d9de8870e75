// The devices on which tests run.
#pragma once

#include "backends/backend.h"
#include "backends/sharing.h"
#include "backends/wrapped_device.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace towers::test {

/// During its lifetime, limits how devices from open_options() share out the launches that they record.
class ShareOut {
public:
    explicit ShareOut(const SharingLimits& limits);
    ShareOut(const ShareOut&) = delete;
    ShareOut& operator=(const ShareOut&) = delete;
    ~ShareOut();

private:
    SharingLimits before_;
};

/// Opens Vulkan under the validation layer and without cutting recordings, so that a missing barrier shows.
OpenOptions open_options();

/// The ids of all devices. Reports absent backends once. If a device fails to open, the test that opens it
/// fails.
const std::vector<std::string>& device_ids();

/// A device that is opened once for the whole test program.
Device& device(const std::string& id);

/// Fails at one call of a verb and, like a lost device, at every later call, at once or after hanging for a
/// while.
class FailingDevice final : public WrappedDevice {
public:
    enum class Verb { allocate, record, submit, wait };
    /// Says which call fails; may be set while the device is in use.
    struct Failure {
        Verb verb = Verb::submit;
        std::atomic<unsigned> calls_left = ~0u; ///< of the verb before the failing one
        std::atomic<bool> lost = false;
        const std::atomic<bool>* silent = nullptr; ///< hangs while this is true, then fails
    };
    FailingDevice(std::unique_ptr<Device> device, Failure& failure)
        : WrappedDevice(std::move(device)), failure_(failure) {}

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override;
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override;

private:
    void count(Verb verb);
    Failure& failure_;
};

/// Hangs while told so.
class HangingDevice final : public WrappedDevice {
public:
    HangingDevice(std::unique_ptr<Device> device, const std::atomic<bool>& hangs)
        : WrappedDevice(std::move(device)), hangs_(hangs) {}

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        hangs_.wait(true);
        return WrappedDevice::do_allocate(bytes, memory);
    }
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) override {
        hangs_.wait(true);
        return WrappedDevice::do_record(commands);
    }
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        hangs_.wait(true);
        WrappedDevice::do_submit(recording, submission, after);
    }
    void do_wait(Submission submission) override {
        hangs_.wait(true);
        WrappedDevice::do_wait(submission);
    }
    void do_finish() noexcept override {
        hangs_.wait(true);
        WrappedDevice::do_finish();
    }

private:
    const std::atomic<bool>& hangs_;
};

/// Messages of the Vulkan validation layer that are expected; any other makes the test program fail.
void expect_validation_messages(unsigned count);
unsigned expected_validation_messages();

/// Closes the shared devices. Call it before the program ends: drivers and layers are unloaded before static
/// objects are destroyed.
void close_devices();

} // namespace towers::test
