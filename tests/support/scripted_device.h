// A device that passes everything on to another device and also follows a test's script.
#pragma once

#include "backends/wrapped_device.h"
#include "engine/liveness/patience.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override;
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override;
    void do_wait(Submission submission) override;
    void do_finish() noexcept override;

private:
    DeviceInfo info_;
    Script script_;
};

/// A time in which calls do not answer. Scripts share it, since a tower that hangs outlives its test.
class Silence {
public:
    /// `seconds`: how many pass for a watchdog with time_of(), pause by pause; then its time stands still.
    void begin(std::vector<double> seconds);
    /// Returns when no call keeps it any more.
    void end();
    /// For a script: returns when there is no silence.
    void keep();
    /// Returns the seconds of a pause in which so many towers were late: 0 unless all of them keep silence.
    double pass(std::size_t late);
    /// Whether all seconds have passed.
    bool is_over() const;

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool lasts_ = false;
    std::size_t calls_ = 0, pauses_ = 0;
    std::vector<double> seconds_; ///< that have not passed, the first one last
};

/// A watchdog's time that passes only during silence, and only while no other tower is late: no machine is
/// too busy for the others. Silent towers must be before the end of their parts of the step. If the watchdog
/// gives up nobody, the silence ends after minutes, and the test fails.
Pause time_of(const std::shared_ptr<Silence>& silence);

/// Says which call of a verb fails; afterwards all calls fail, as with a lost device.
struct Failure {
    enum class Verb { allocate, record, submit, wait } verb = Verb::submit;
    std::atomic<unsigned> calls_left =
        ~0u; ///< of the verb, before the one that fails; may change at any time
    std::atomic<bool> lost = false;
    std::shared_ptr<Silence> silence = {}; ///< null: none; a failing call keeps it
};
/// `failure` must outlive the device's last use, except a call that keeps silence.
Script failing(Failure& failure);

/// Memory of a device that refuses what goes beyond.
struct MemoryLimit {
    std::uint64_t bytes = UINT64_MAX;
    bool told = true;
    unsigned refusals = 0;
    std::uint64_t peak = 0; ///< bytes that were allocated at once
};
/// `limit` must outlive the device's last use.
Script limiting(MemoryLimit& limit);

/// Every verb keeps silence.
Script hanging(const std::shared_ptr<Silence>& silence);

} // namespace towers::test
