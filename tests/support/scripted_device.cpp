#include "tests/support/scripted_device.h"

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

std::unique_ptr<RecordingState> ScriptedDevice::do_record(std::span<const Command> commands) {
    if (!script_.record) return WrappedDevice::do_record(commands);
    std::vector<Command> changed(commands.begin(), commands.end());
    script_.record(changed);
    return WrappedDevice::do_record(changed);
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

Script failing(Failure& failure) {
    const auto count = [&failure](Failure::Verb verb) {
        if (verb == failure.verb && failure.calls_left-- == 0) failure.lost = true;
        if (!failure.lost) return;
        if (failure.silent != nullptr) failure.silent->wait(true); // after that `failure` may be gone
        throw DeviceError("refused");
    };
    return {.allocate = [=](std::size_t, std::uint64_t) { count(Failure::Verb::allocate); },
            .record = [=](std::vector<Command>&) { count(Failure::Verb::record); },
            .submit = [=] { count(Failure::Verb::submit); },
            .wait = [=] { count(Failure::Verb::wait); }};
}

Script hanging(const std::atomic<bool>& hangs) {
    const auto wait = [&hangs] { hangs.wait(true); };
    return {.allocate = [=](std::size_t, std::uint64_t) { wait(); },
            .record = [=](std::vector<Command>&) { wait(); },
            .submit = wait,
            .wait = wait,
            .finish = wait};
}

} // namespace towers::test
