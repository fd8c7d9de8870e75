// Copies and the host's work overlap the towers' computing. The order of what happens shows it, on devices
// that stand still until it has happened.
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"

#include "backends/wrapped_device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <utility>

namespace towers {
namespace {

/// Counts the new parameters that a tower has uploaded.
class Uploads {
public:
    void add() {
        const std::lock_guard lock(mutex_);
        ++count_;
        changed_.notify_all();
    }
    std::size_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }
    /// Only a step that stands still waits so long.
    bool wait_for(std::size_t count) const {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::minutes(2), [&] { return count_ >= count; });
    }

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::size_t count_ = 0;
};

/// Kernels that follow a bucket's last one end only when `others` has the bucket's new parameters: until
/// then the bucket must have reached the host, been updated, and left the host again. What comes after such
/// kernels, on the device or in their queue, does not end before them.
class LingeringDevice final : public WrappedDevice {
public:
    /// `others`: null for a device that never stands still.
    LingeringDevice(std::unique_ptr<Device> device, Uploads& own, const Uploads* others)
        : WrappedDevice(std::move(device)), own_(own), others_(others) {}

    /// The most uploads that something waited for.
    std::size_t waited_for() const { return waited_for_; }

protected:
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        // Parameters that are uploaded before the first gradients are not new.
        if (submission.queue == Queue::upload && delivered_ > 0) own_.add();
        if (submission.queue == Queue::compute) {
            computing_ = {.others = delivered_, .own = had_};
        } else if (submission.queue == Queue::download) {
            ++delivered_;
            had_ = computing_.others;
        }
        Needs& needs = in_queue_[std::size_t(submission.queue)];
        if (submission.queue == Queue::compute) needs = computing_;
        for (const Submission& each : after)
            needs.others = std::max(needs.others, needs_[each.ticket].others);
        needs_[submission.ticket] = needs;
        WrappedDevice::do_submit(recording, submission, after);
    }
    void do_wait(Submission submission) override {
        const Needs& needs = needs_.at(submission.ticket);
        if (others_ != nullptr) {
            CHECK(own_.count() >= needs.own);
            if (!others_->wait_for(needs.others))
                throw DeviceError(
                    fmt::format("stands still: the other tower has {} of {} buckets' parameters",
                                others_->count(), needs.others));
            waited_for_ = std::max(waited_for_, needs.others);
        }
        WrappedDevice::do_wait(submission);
    }

private:
    /// How many uploads, since the first step began, come before the end of a submission.
    struct Needs {
        std::size_t others = 0;
        std::size_t own = 0; ///< of buckets that were updated before this tower delivered the last one
    };

    Uploads& own_;
    const Uploads* others_;
    std::size_t delivered_ = 0; ///< downloads submitted
    std::size_t had_ = 0;       ///< what the kernels before the last download needed
    Needs computing_;
    std::array<Needs, queue_count> in_queue_;
    std::map<Ticket, Needs> needs_;
    std::size_t waited_for_ = 0;
};

} // namespace

TEST_CASE("buckets are averaged and new parameters copied while a tower still computes the others") {
    const Recipe recipe = find_recipe("cifar10-tutorial");
    for (const std::size_t lingering : {0, 1}) {
        CAPTURE(lingering);
        std::array<Uploads, 2> uploads;
        std::array<const LingeringDevice*, 2> devices{};
        std::size_t opened = 0;
        TrainerOptions options = test::options_for({"one", "two"}, 8);
        options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
            const std::size_t i = opened++;
            auto device = std::make_unique<LingeringDevice>(
                std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 0; }),
                uploads[i], i == lingering ? &uploads[1 - i] : nullptr);
            devices[i] = device.get();
            return device;
        };
        Trainer trainer(recipe, options, test::noise(100));
        const std::size_t buckets = trainer.own_tower(0)->buckets().size();
        REQUIRE(buckets >= 4);
        constexpr std::size_t steps = 3;
        for (std::size_t i = 0; i < steps; ++i) trainer.step();
        for (const Uploads& each : uploads) CHECK(each.count() == steps * buckets);
        CHECK(devices[lingering]->waited_for() ==
              steps * buckets - 1); // all but the last one of the last step
    }
}

} // namespace towers
