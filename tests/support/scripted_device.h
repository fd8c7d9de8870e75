// A device that passes everything on to another device and also follows a test's script.
#pragma once

#include "backends/wrapped_device.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace towers::test {

/// What happens at each verb before the other device gets it. An empty function does nothing; if a function
/// throws, the other device does not get the verb.
struct Script {
    std::string id = {}; ///< empty: the other device's
    /// In bytes; `allocated`: of all existing buffers.
    std::function<std::uint64_t(std::uint64_t allocated)> free_memory = {};
    std::function<void(std::size_t bytes, std::uint64_t allocated)> allocate = {};
    std::function<void(std::vector<Command>& commands)> record = {}; ///< may change them
    std::function<void()> submit = {}, wait = {};
    std::function<void()> finish = {}; ///< must not throw
};

class ScriptedDevice : public WrappedDevice {
public:
    ScriptedDevice(std::unique_ptr<Device> device, Script script);

    const DeviceInfo& info() const override { return info_; }
    std::uint64_t free_memory() const override;

    using WrappedDevice::allocated;

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override;
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override;
    void do_finish() noexcept override;

private:
    DeviceInfo info_;
    Script script_;
};

/// Says which call of a verb fails; afterwards all calls fail, as with a lost device.
struct Failure {
    enum class Verb { allocate, record, submit, wait } verb = Verb::submit;
    std::atomic<unsigned> calls_left =
        ~0u; ///< of the verb, before the one that fails; may change at any time
    std::atomic<bool> lost = false;
    const std::atomic<bool>* silent = nullptr; ///< while this is true, a failing call does not answer
};
/// `failure` must outlive the device's last use, except a call that is silent.
Script failing(Failure& failure);

/// No verb answers while this is true.
Script hanging(const std::atomic<bool>& hangs);

} // namespace towers::test
