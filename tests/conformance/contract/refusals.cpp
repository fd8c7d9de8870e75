// What every device refuses.
#include "tests/conformance/contract/contract.h"
#include "tests/support/scripted_device.h"

#include <array>
#include <fmt/format.h>

namespace towers::test {

TEST_CASE("a call that breaks the contract is refused with its reason, and the device still works") {
    on_every_device([](Device& device) {
        const Buffer in = staged(device, 5), out = staged(device, 0);
        const auto other = open_device(device.info().id, open_options());
        const Buffer foreign = other->allocate(bytes, Memory::staging);
        const auto refusal = [&](const std::function<void()>& action) {
            const std::string message = message_of<std::logic_error>(action);
            CHECK(message.starts_with(device.info().id));
            CHECK(message.find('\n') == std::string::npos);
            return message.substr(std::min(message.size(), device.info().id.size() + 2));
        };
        const auto recorded = [&](const Command& command) {
            return refusal([&] { device.record(std::vector<Command>{Barrier{}, command}); });
        };
        const auto copied = [&](const BufferSlice& from, const BufferSlice& to) {
            return recorded(Copy{from, to});
        };
        const Buffer none;
        CHECK(copied({nullptr, 0, 4}, {&out, 0, 4}) == "record: command 1: the copy's source is no buffer");
        CHECK(copied({&in, 0, 4}, {&none, 0, 4}) == "record: command 1: the copy's target is no buffer");
        CHECK(copied({&foreign, 0, 4}, {&out, 0, 4}) ==
              "record: command 1: the copy's source is another device's buffer");
        CHECK(copied({&in, bytes - 3, 4}, {&out, 0, 4}) ==
              "record: command 1: the copy's source is 4 bytes at 4093 of a buffer of 4096");
        CHECK(
            copied({&in, 0, 4}, {&out, SIZE_MAX, 4}).starts_with("record: command 1: the copy's target is"));
        CHECK(copied({&in, 0, 4}, {&out, 0, 8}) == "record: command 1: a copy of 4 bytes to 8");
        CHECK(copied({&in, 0, 0}, {&out, 0, 0}) == "record: command 1: a copy of no bytes");
        CHECK(copied({&in, 0, 8}, {&in, 7, 8}) == "record: command 1: the copy's source and target overlap");

        const auto reading = [&](std::size_t offset, uint count) {
            return launch(kernels::relu_backward,
                          {.saved = {reinterpret_cast<const float*>(in.address() + offset)},
                           .dy = {},
                           .dx = {},
                           .count = count});
        };
        CHECK(recorded(reading(4, 1)) == "record: command 1: relu_backward: pointer 0 is no multiple of 16");
        CHECK(recorded(reading(0, 0)) == "record: command 1: relu_backward has no items");
        CHECK(recorded(Launch{Kernel(0xffff), {}}) == "record: command 1: there is no kernel 65535");

        const Recording theirs = record(*other, {});
        const Recording ours = record(device, {copy(in, out), Timestamp{}});
        CHECK(refusal([&] { device.submit({}); }) == "submit: there is no recording");
        CHECK(refusal([&] { device.submit(theirs); }) == "submit: the recording is another device's");
        CHECK(refusal([&] { device.timestamps(theirs); }) == "timestamps: the recording is another device's");
        CHECK(refusal([&] { device.timestamps(ours); }) == "timestamps: the recording has not finished");
        CHECK(refusal([&] { device.wait(0); }) == "wait: ticket 0 was never issued");
        const Recording computes = record(device, {reading(0, 1)});
        for (const Queue queue : {Queue::upload, Queue::download})
            CHECK(refusal([&] { device.submit(computes, queue); }) ==
                  "submit: the recording has launches, which a copy queue cannot run");
        for (const Ticket never : {Ticket(0), ~Ticket(0)})
            CHECK(refusal([&] { device.submit(ours, Queue::upload, std::array{never}); }) ==
                  fmt::format("submit: ticket {} was never issued", never));
        const Ticket ticket = device.submit(ours);
        CHECK(refusal([&] { device.timestamps(ours); }) == "timestamps: the recording has not finished");
        CHECK(refusal([&] { device.wait(ticket + 1); }).ends_with("was never issued"));
        device.wait(ticket);
        CHECK(holds(out, 5));
    });
}

TEST_CASE("after a failure a device refuses everything in one line and can still be closed") {
    for (const std::string& id : device_ids())
        for (const bool at_submission : {true, false}) {
            INFO("on ", id);
            Failure failure{.verb = at_submission ? Failure::Verb::submit : Failure::Verb::wait};
            ScriptedDevice device(open_device(id, open_options()), failing(failure));
            const Buffer in = staged(device, 5), out = staged(device, 0);
            const Recording recording = record(device, {copy(in, out)});
            device.wait(device.submit(recording));
            const Ticket ticket = device.submit(recording);
            failure.calls_left = 0;
            const auto refusal = [](const std::function<void()>& action) {
                return message_of<DeviceError>(action);
            };
            CHECK(refusal([&] { at_submission ? void(device.submit(recording)) : device.wait(ticket); }) ==
                  "refused");
            const std::string expected = id + ": failed before and can only be closed: refused";
            CHECK(refusal([&] { device.allocate(4, Memory::device); }) == expected);
            CHECK(refusal([&] { record(device, {}); }) == expected);
            CHECK(refusal([&] { device.submit(recording); }) == expected);
            CHECK(refusal([&] { device.wait(ticket); }) == expected);
            CHECK(refusal([&] { device.timestamps(recording); }) == expected);
            device.finish();
        }
}

} // namespace towers::test
