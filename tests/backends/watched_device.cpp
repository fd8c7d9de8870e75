#include "backends/watched_device.h"

#include "backends/wrapped_device.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <functional>
#include <mutex>
#include <string>

namespace towers {
namespace {

using Takes = DriverThread::Takes;

/// A driver's call that does not return until the test lets it.
class Hang {
public:
    void wait() {
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [this] { return over_; });
    }
    void end() {
        const std::lock_guard lock(mutex_);
        over_ = true;
        ended_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    bool over_ = false;
};

std::string message_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const DeviceLost& lost) {
        return lost.what();
    }
    return "nothing was thrown";
}

/// A device of a driver that hangs at one verb, once the test says so.
class Hanging final : public WrappedDevice {
public:
    Hanging(std::shared_ptr<Hang> hang, std::string verb)
        : WrappedDevice(open_device("cpu", {.threads = 1})), hang_(std::move(hang)), verb_(std::move(verb)) {}
    ~Hanging() override { at("close"); }

    std::uint64_t free_memory() const override {
        at("free_memory");
        return WrappedDevice::free_memory();
    }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        at("allocate");
        return WrappedDevice::do_allocate(bytes, memory);
    }
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        at("record");
        return WrappedDevice::do_record(commands, scratch);
    }
    void do_wait(Submission submission) override {
        at("wait");
        WrappedDevice::do_wait(submission);
    }

private:
    void at(const std::string& verb) const {
        if (verb != verb_) return;
        const DriverCall call("vkFunction");
        hang_->wait();
    }

    std::shared_ptr<Hang> hang_;
    std::string verb_;
};

} // namespace

TEST_CASE("a call on a driver's thread gives what it gives, and throws what it throws") {
    DriverThread thread({.timeout = 60});
    int result = 0;
    thread.call("gpu", "working", Takes::moments, [&] { result = 1; });
    CHECK(result == 1);
    CHECK_THROWS_WITH_AS(
        thread.call("gpu", "working", Takes::moments, [] { throw OutOfMemory("no memory"); }), "no memory",
        OutOfMemory);
    CHECK_FALSE(thread.hangs());
    thread.call("gpu", "working", Takes::moments, [&] { result = 2; });
    CHECK(result == 2);
}

TEST_CASE("a call that does not answer in time is given up, and touches nothing when it returns late") {
    Hang& hang = *new Hang; // the thread never ends
    static std::atomic<int> reached = 0;
    const auto work = [&hang] {
        const DriverCall call("vkCreateDevice");
        hang.wait();
        ++reached;
    };
    {
        DriverThread thread({.timeout = 0.2});
        CHECK(message_of([&] { thread.call("gpu (a card)", "opening the device", Takes::moments, work); }) ==
              "gpu (a card): no answer from vkCreateDevice for 0.2 s while opening the device");
        CHECK(thread.hangs());
    }
    CHECK(any_driver_hangs());
    hang.end();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(reached == 0);
}

TEST_CASE("when the user wants to end the program, it waits only seconds for a driver") {
    Hang& hang = *new Hang; // the thread never ends
    const std::atomic<bool> stop = true;
    DriverThread thread({.timeout = 1000, .stop = &stop});
    CHECK(message_of([&] {
              thread.call("gpu", "preparing kernels", Takes::long_if_it_compiles_or_copies, [&hang] {
                  const DriverCall call("vkFunction");
                  hang.wait();
                  const DriverCall kept("vkNext"); // its end keeps the thread
              });
          }) ==
          "gpu: no answer from vkFunction for 3 s while preparing kernels, and the program was told to end");
}

TEST_CASE(
    "whichever verb of a device hangs, the device is lost, and closing it and its memory does not wait") {
    struct Case {
        const char *verb, *message;
    };
    const Case cases[] = {
        {"free_memory", "no answer from vkFunction for 0.2 s while asking for free memory"},
        {"allocate", "no answer from vkFunction for 0.2 s while allocating memory"},
        {"record", "no answer from vkFunction for 2 s while preparing kernels"},
        {"wait", "no answer from vkFunction for 2 s while running"},
        {"close", "nothing was thrown"},
    };
    for (const Case& each : cases) {
        CAPTURE(each.verb);
        const auto hang = std::make_shared<Hang>(); // which the thread keeps
        const auto use = [&] {
            const auto device = open_watched("gpu", {.timeout = 0.2},
                                             [&] { return std::make_unique<Hanging>(hang, each.verb); });
            device->free_memory();
            const Buffer source = device->allocate(256, Memory::staging),
                         target = device->allocate(256, Memory::device);
            const Recording recording =
                device->record(std::vector<Command>{Copy{{&source, 0, 256}, {&target, 0, 256}}});
            device->wait(device->submit(recording));
        };
        const std::string message = message_of(use);
        CHECK_MESSAGE(message.ends_with(each.message), message);
    }
}

TEST_CASE("a thread that others watch makes its calls to devices itself") {
    const auto device =
        open_watched("gpu", {.timeout = 60}, [] { return open_device("cpu", {.threads = 1}); });
    const Buffer buffer = device->allocate(256, Memory::staging);
    const auto thread_of_call = [&] {
        class Seen final : public WrappedDevice {
        public:
            explicit Seen(std::thread::id& thread)
                : WrappedDevice(open_device("cpu", {.threads = 1})), thread_(thread) {}

        protected:
            std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
                thread_ = std::this_thread::get_id();
                return WrappedDevice::do_allocate(bytes, memory);
            }

        private:
            std::thread::id& thread_;
        };
        std::thread::id seen;
        const auto watched =
            open_watched("gpu", {.timeout = 60}, [&] { return std::make_unique<Seen>(seen); });
        const Buffer memory = watched->allocate(256, Memory::staging);
        return seen;
    };
    CHECK(thread_of_call() != std::this_thread::get_id());
    const Attended attended;
    CHECK(thread_of_call() == std::this_thread::get_id());
}

} // namespace towers
