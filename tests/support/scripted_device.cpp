#include "tests/support/scripted_device.h"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <utility>

namespace towers::test {

ScriptedDevice::ScriptedDevice(std::unique_ptr<Device> device, Script script)
    : WrappedDevice(std::move(device)), info_(WrappedDevice::info()), script_(std::move(script)) {
    if (!script_.id.empty()) info_.id = script_.id;
}

std::uint64_t ScriptedDevice::free_memory() const {
    return script_.free_memory ? script_.free_memory(allocated()) : WrappedDevice::free_memory();
}

std::unique_ptr<Allocation> ScriptedDevice::do_allocate(std::size_t bytes, Memory memory) {
    if (script_.allocate) script_.allocate(bytes, allocated());
    return WrappedDevice::do_allocate(bytes, memory);
}

std::unique_ptr<RecordingState> ScriptedDevice::do_record(std::span<const Command> commands,
                                                          const Buffer* scratch) {
    if (!script_.record) return WrappedDevice::do_record(commands, scratch);
    std::vector<Command> changed(commands.begin(), commands.end());
    script_.record(changed);
    return WrappedDevice::do_record(changed, scratch);
}

void ScriptedDevice::do_submit(const RecordingState& recording, Submission submission,
                               std::span<const Submission> after) {
    if (script_.submit) script_.submit();
    WrappedDevice::do_submit(recording, submission, after);
}

void ScriptedDevice::do_wait(Submission submission) {
    if (script_.wait) script_.wait();
    WrappedDevice::do_wait(submission);
}

void ScriptedDevice::do_finish() noexcept {
    if (script_.finish) script_.finish();
    WrappedDevice::do_finish();
}

void Silence::begin(std::vector<double> seconds) {
    const std::lock_guard lock(mutex_);
    lasts_ = true;
    pauses_ = 0;
    seconds_ = std::move(seconds);
    std::ranges::reverse(seconds_);
}

void Silence::end() {
    std::unique_lock lock(mutex_);
    lasts_ = false;
    changed_.notify_all();
    changed_.wait(lock, [&] { return calls_ == 0; });
}

void Silence::keep() {
    std::unique_lock lock(mutex_);
    ++calls_;
    changed_.wait(lock, [&] { return !lasts_; });
    --calls_;
    changed_.notify_all();
}

double Silence::pass(std::size_t late) {
    static std::atomic<std::size_t> most = 120'000; // pauses of a millisecond and more
    {
        const std::lock_guard lock(mutex_);
        if (!lasts_) return 0;
        if (calls_ > 0 && late == calls_ && !seconds_.empty()) {
            const double seconds = seconds_.back();
            seconds_.pop_back();
            return seconds;
        }
        if (++pauses_ < most) return 0;
    }
    most = 1'000; // once is enough
    FAIL_CHECK("nobody gave up the silent devices; ", late, " towers are late");
    end();
    return 0;
}

bool Silence::is_over() const {
    const std::lock_guard lock(mutex_);
    return seconds_.empty();
}

Pause time_of(const std::shared_ptr<Silence>& silence) {
    return {.length = std::chrono::milliseconds(1),
            .counts = [=](std::size_t late) { return silence->pass(late); }};
}

Script failing(Failure& failure) {
    const auto count = [&failure](Failure::Verb verb) {
        if (verb == failure.verb && failure.calls_left-- == 0) failure.lost = true;
        if (!failure.lost) return;
        if (const auto silence = failure.silence) silence->keep(); // after that `failure` may be gone
        throw DeviceError("refused");
    };
    return {.allocate = [=](std::size_t, std::uint64_t) { count(Failure::Verb::allocate); },
            .record = [=](std::vector<Command>&) { count(Failure::Verb::record); },
            .submit = [=] { count(Failure::Verb::submit); },
            .wait = [=] { count(Failure::Verb::wait); }};
}

Script limiting(MemoryLimit& limit) {
    return {.free_memory =
                [&limit](std::uint64_t allocated) {
                    return limit.told ? limit.bytes - std::min(limit.bytes, allocated) : Device::not_told;
                },
            .allocate =
                [&limit](std::size_t bytes, std::uint64_t allocated) {
                    if (allocated + bytes > limit.bytes) {
                        ++limit.refusals;
                        throw OutOfMemory(fmt::format("no memory for {} bytes", bytes));
                    }
                    limit.peak = std::max(limit.peak, allocated + bytes);
                }};
}

Script hanging(const std::shared_ptr<Silence>& silence) {
    const auto keep = [=] { silence->keep(); };
    return {.allocate = [=](std::size_t, std::uint64_t) { keep(); },
            .record = [=](std::vector<Command>&) { keep(); },
            .submit = keep,
            .wait = keep,
            .finish = keep};
}

} // namespace towers::test
