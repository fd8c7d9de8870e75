// What the engine relies on in every device: its queues, submissions and clock.
#include "tests/conformance/contract/contract.h"

#include "engine/clock.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <thread>

namespace towers::test {
namespace {

/// A launch that computes total = total + increment: partials[2] = {total, increment}.
std::vector<Command> add_once(const Buffer& partials, const Buffer& sum) {
    const Launch add =
        launch(kernels::sum_partials, {.partials = {reinterpret_cast<const float*>(partials.address())},
                                       .sum = {reinterpret_cast<float*>(sum.address())},
                                       .parts = 2,
                                       .count = 1,
                                       .channels = 1});
    return {add, Barrier{}, Copy{{&sum, 0, 4}, {&partials, 0, 4}}};
}

} // namespace

TEST_CASE("submissions to one queue run in the order in which they were made") {
    on_every_device([](Device& device) {
        const Buffer one = staged(device, 1), two = staged(device, 2), out = staged(device, 0);
        const Buffer there = device.allocate(bytes, Memory::device);
        const Recording put_one = record(device, {copy(one, there)}),
                        put_two = record(device, {copy(two, there)});
        const Recording take = record(device, {copy(there, out)});
        for (const Queue queue : {Queue::compute, Queue::upload, Queue::download})
            for (const std::uint32_t last : {1u, 2u, 1u}) {
                device.submit(last == 1 ? put_two : put_one, queue);
                device.submit(last == 1 ? put_one : put_two, queue);
                device.wait(device.submit(take, queue));
                CHECK(holds(out, last));
            }
    });
}

TEST_CASE("a submission sees what submissions to other queues wrote if it comes after them") {
    // Adds uploads to a total and downloads it; large enough that copies take a while.
    constexpr std::size_t count = std::size_t(1) << 18, size = count * sizeof(float);
    constexpr std::size_t rounds = 40;
    on_every_device([](Device& device) {
        const Buffer partials = device.allocate(2 * size, Memory::device); // the total and its increment
        const Buffer sum = device.allocate(size, Memory::device);
        std::vector<Buffer> in, out;
        std::vector<Recording> up, down;
        for (std::size_t i = 0; i < 4; ++i) {
            in.push_back(device.allocate(size, Memory::staging));
            out.push_back(device.allocate(size, Memory::staging));
            up.push_back(record(device, {Copy{all_of(in[i]), {&partials, size, size}}}));
            down.push_back(record(device, {copy(sum, out[i])}));
        }
        const Recording add = record(
            device,
            {launch(kernels::sum_partials, {.partials = {reinterpret_cast<const float*>(partials.address())},
                                            .sum = {reinterpret_cast<float*>(sum.address())},
                                            .parts = 2,
                                            .count = count,
                                            .channels = count}),
             Barrier{}, Copy{all_of(sum), {&partials, 0, size}}});
        float total = 0;
        Ticket added = device.submit(add), taken = added; // 0 + 0
        for (std::size_t round = 0; round < rounds; round += in.size()) {
            for (std::size_t i = 0; i < in.size(); ++i)
                std::ranges::fill(in[i].host<float>(), float(round + i));
            for (std::size_t i = 0; i < in.size(); ++i) {
                const Ticket put = device.submit(up[i], Queue::upload, std::array{added});
                added = device.submit(add, Queue::compute, std::array{put, taken});
                taken = device.submit(down[i], Queue::download, std::array{added});
            }
            device.wait(taken);
            for (std::size_t i = 0; i < in.size(); ++i) {
                INFO("round ", round + i);
                total += float(round + i);
                const auto results = out[i].host<float>();
                const bool right = std::ranges::all_of(results, [=](float each) { return each == total; });
                CHECK(right);
            }
        }
    });
}

TEST_CASE("every queue reports when copies began and ended, or has no clock") {
    on_every_device([](Device& device) {
        const Buffer in = staged(device, 5), out = staged(device, 0);
        const Recording timed = record(device, {Timestamp{}, copy(in, out), Timestamp{}});
        for (const Queue queue : {Queue::upload, Queue::compute, Queue::download, Queue::upload}) {
            device.submit(timed, queue);
            device.wait(device.submit(timed, queue));
            const std::vector<double> moments = device.timestamps(timed);
            if (moments.empty()) continue;
            REQUIRE(moments.size() == 2);
            CHECK(moments[0] <= moments[1]);
            CHECK(moments[1] < moments[0] + 60);
        }
    });
}

TEST_CASE("all timestamps of a device are from one clock, in all recordings and queues") {
    on_every_device([](Device& device) {
        const Buffer in = staged(device, 5), out = staged(device, 0);
        const Recording first = record(device, {copy(in, out), Timestamp{}});
        const Recording second = record(device, {Timestamp{}, copy(in, out)});
        for (const Queue queue : {Queue::compute, Queue::upload, Queue::download}) {
            const Clock::time_point begin = Clock::now();
            device.wait(device.submit(first));
            const double waited = seconds_since(begin);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            const double slept = seconds_since(begin) - waited;
            device.wait(device.submit(second, queue));
            const double all = seconds_since(begin);
            const std::vector<double> one = device.timestamps(first), other = device.timestamps(second);
            if (one.empty() || other.empty()) continue; // no clock
            CHECK(other[0] - one[0] >= 0.999 * slept);
            CHECK(other[0] - one[0] <= 1.001 * all);
        }
    });
}

TEST_CASE("a device that is finished has done the work of all its queues") {
    on_every_device([](Device& device) {
        constexpr std::size_t much = std::size_t(1) << 20;
        std::vector<Buffer> in, out;
        std::vector<Recording> recordings;
        for (std::uint32_t i = 0; i < queue_count; ++i) {
            in.push_back(staged(device, i + 1, much));
            out.push_back(staged(device, 0, much));
            recordings.push_back(device.record(long_work(in[i], out[i])));
        }
        for (std::size_t i = 0; i < queue_count; ++i) device.submit(recordings[i], Queue(i));
        device.finish();
        for (std::uint32_t i = 0; i < queue_count; ++i) CHECK(holds(out[i], i + 1));
    });
}

TEST_CASE("a submission sees what the host wrote before it, and leaves its results when it is waited for") {
    on_every_device([](Device& device) {
        const Buffer in = staged(device, 0), out = staged(device, 0);
        const Buffer there = device.allocate(bytes, Memory::device);
        const Recording through = record(device, {copy(in, there), Barrier{}, copy(there, out)});
        for (const std::uint32_t word : {7u, 8u, 9u}) {
            std::ranges::fill(in.host<std::uint32_t>(), word);
            device.wait(device.submit(through));
            CHECK(holds(out, word));
        }
    });
}

TEST_CASE("submissions can be waited for late, out of order and twice") {
    on_every_device([](Device& device) {
        std::vector<Buffer> in, out;
        std::vector<Recording> recordings;
        std::vector<Ticket> tickets;
        for (std::uint32_t i = 0; i < 4; ++i) {
            in.push_back(staged(device, i + 1));
            out.push_back(staged(device, 0));
        }
        for (std::uint32_t i = 0; i < 4; ++i) recordings.push_back(record(device, {copy(in[i], out[i])}));
        for (const Recording& each : recordings) tickets.push_back(device.submit(each));
        CHECK(std::ranges::is_sorted(tickets, std::less_equal{}));
        device.wait(tickets[2]);
        for (std::uint32_t i = 0; i <= 2; ++i) CHECK(holds(out[i], i + 1));
        for (const std::size_t i : {0, 0, 2, 3, 1, 3}) device.wait(tickets[i]);
        CHECK(holds(out[3], 4));
    });
}

TEST_CASE("one recording may be submitted several times before it is waited for") {
    on_every_device([](Device& device) {
        const Buffer partials = staged(device, 0, 16), sum = staged(device, 0, 16);
        partials.host<float>()[1] = 1;
        const Recording add = device.record(add_once(partials, sum));
        Ticket last = 0;
        for (int i = 0; i < 100; ++i) last = device.submit(add);
        device.wait(last);
        CHECK(partials.host<float>()[0] == 100);
    });
}

TEST_CASE("a recording may be empty or contain only barriers") {
    on_every_device([](Device& device) {
        device.run({});
        const Recording barriers = record(device, {Barrier{}, Barrier{}});
        device.submit(barriers);
        device.wait(device.submit(barriers));
        const Recording moment = record(device, {Barrier{}, Timestamp{}, Barrier{}});
        device.wait(device.submit(moment));
        CHECK(device.timestamps(moment).size() <= 1);
        CHECK(device.timestamps(barriers).empty());
    });
}

TEST_CASE("two devices on one card work at the same time and may be destroyed in any order") {
    on_every_device([](Device& first) {
        const Buffer in = staged(first, 5), out = staged(first, 0);
        const Recording recording = record(first, {copy(in, out)});
        auto second = open_device(first.info().id, open_options());
        {
            constexpr std::size_t much = std::size_t(1) << 20;
            const Buffer source = staged(*second, 6, much), target = staged(*second, 0, much);
            const Recording other = second->record(long_work(source, target));
            const Ticket theirs = second->submit(other);
            const Ticket ours = first.submit(recording);
            first.wait(ours);
            second->wait(theirs);
            CHECK(holds(out, 5));
            CHECK(holds(target, 6));
            second->submit(other); // still running when it is destroyed
        }
        second.reset();
        std::ranges::fill(in.host<std::uint32_t>(), 7u);
        first.wait(first.submit(recording));
        CHECK(holds(out, 7));
    });
}

namespace {

/// A device that does nothing and logs the calls to its backend.
class SpyDevice final : public Device {
public:
    std::string asked; ///< "2 upload after 1 compute; wait 2; "
    const DeviceInfo& info() const override { return info_; }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t, Memory) override { return {}; }
    std::unique_ptr<RecordingState> do_record(std::span<const Command>, const Buffer*) override {
        return std::make_unique<RecordingState>();
    }
    void do_submit(const RecordingState&, Submission submission, std::span<const Submission> after) override {
        asked += name(submission);
        for (const Submission& each : after) asked += " after " + name(each);
        asked += "; ";
    }
    void do_wait(Submission submission) override { asked += "wait " + name(submission) + "; "; }
    void do_finish() noexcept override {}
    std::vector<double> do_timestamps(const RecordingState&) const override { return {}; }

private:
    static std::string name(const Submission& submission) {
        const char* const queues[queue_count] = {"compute", "upload", "download"};
        return fmt::format("{} {}", submission.ticket, queues[std::size_t(submission.queue)]);
    }
    DeviceInfo info_;
};

} // namespace

TEST_CASE("a backend need not wait for submissions that are implied or already waited for") {
    SpyDevice device;
    const Recording recording = device.record({});
    const auto submit = [&](Queue queue, const std::vector<Ticket>& after) {
        device.asked.clear();
        device.submit(recording, queue, after);
        return device.asked;
    };
    const auto wait = [&](Ticket ticket) {
        device.asked.clear();
        device.wait(ticket);
        return device.asked;
    };
    CHECK(submit(Queue::compute, {}) == "1 compute; ");
    CHECK(submit(Queue::compute, {1}) == "2 compute; ");
    CHECK(submit(Queue::upload, {1, 2}) == "3 upload after 2 compute; ");
    CHECK(submit(Queue::upload, {1}) == "4 upload; ");
    CHECK(submit(Queue::download, {2, 3, 4}) == "5 download after 2 compute after 4 upload; ");
    CHECK(submit(Queue::download, {3}) == "6 download; ");
    CHECK(submit(Queue::compute, {6}) == "7 compute after 6 download; ");
    CHECK(submit(Queue::compute, {4, 5}) == "8 compute; ");
    CHECK(submit(Queue::upload, {}) == "9 upload; ");
    CHECK(wait(5) == "wait 5 download; ");
    for (const Ticket ticket : {1, 2, 3, 4, 5}) CHECK(wait(ticket).empty());
    CHECK(submit(Queue::download, {2, 9}) == "10 download after 9 upload; ");
    CHECK(wait(7) == "wait 7 compute; ");
    CHECK(wait(6).empty());
    CHECK(wait(10) == "wait 10 download; ");
    CHECK(wait(9).empty());
    CHECK(wait(8) == "wait 8 compute; ");
    CHECK(submit(Queue::upload, {8, 10}) == "11 upload; ");
}

TEST_CASE("a device reports how many queues work side by side") {
    const bool shown = std::getenv("TOWERS_MORE_QUEUES") != nullptr; // set for the layer in tests/more_queues
    for (const std::string& id : device_ids()) {
        CAPTURE(id);
        const unsigned queues = device(id).info().queues;
        CHECK(queues >= 1);
        CHECK(queues <= queue_count);
        if (shown && id.starts_with("vulkan:")) CHECK(queues == queue_count);
    }
}

} // namespace towers::test
