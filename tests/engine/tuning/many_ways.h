// A device that can run launches in several ways, with times and mistakes as a test wants them.
#pragma once

#include "backends/backend.h"
#include "backends/wrapped_device.h"
#include "engine/plan/plan.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace towers::test {

inline const std::map<std::string, double> usual_us{{"slow", 500}, {"wrong", 1}, {"plain", 10}, {"dear", 11}};

/// A CPU that can run a launch in several ways: `slow`, which it takes for the fastest, takes 50 times as
/// long as `plain`, `wrong` does nothing, `broken` cannot be recorded, and for `large` memory does not
/// suffice. By its estimate, `dear` is the slowest.
class ManyWays : public WrappedDevice {
public:
    explicit ManyWays(const Choices& choices) : WrappedDevice(open_device("cpu", {})), choices_(choices) {}

    std::set<std::string> recorded;      ///< the ways that it was asked for
    std::map<std::string, unsigned> ran; ///< how often each
    std::map<std::string, double> costs; ///< where they are other than usual
    std::chrono::milliseconds pause{};   ///< before each submission
    /// What its clock says that they take, `plain again` where a recording has several
    std::map<std::string, double> us = usual_us;

    const DeviceInfo& info() const override { return info_; }
    void set_info(const DeviceInfo& info) { info_ = info; }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        if (launch.kernel != Kernel::relu_forward && launch.kernel != Kernel::conv2d_forward) return {};
        const Chosen* const chosen = find(&choices_, launch);
        const std::string used = chosen != nullptr && chosen->variant != "sorcery" ? chosen->variant : "slow";
        const double batch = launch.kernel == Kernel::conv2d_forward
                                 ? launch.parameters.as<Conv2dForwardParams>().shape.batch
                                 : 1;
        std::vector<Candidate> all;
        for (const auto& [name, cost] : {std::pair("slow", 1.0),
                                         {"wrong", 2.0},
                                         {"dear", 9.0},
                                         {"broken", 3.0},
                                         {"large", 5.0},
                                         {"plain", 4.0}}) {
            const auto other = costs.find(name);
            all.push_back(
                {name, {.cost = batch * (other != costs.end() ? other->second : cost)}, name == used});
        }
        return all;
    }

protected:
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        std::vector<Command> changed;
        std::string recorded_as;
        for (const Command& command : commands) {
            const auto* const launch = std::get_if<Launch>(&command);
            const Chosen* const chosen = launch != nullptr ? find(&choices_, *launch) : nullptr;
            if (chosen == nullptr) {
                changed.push_back(command);
                continue;
            }
            recorded.insert(recorded_as = chosen->variant);
            if (chosen->variant == "broken") throw DeviceError("it does not compile");
            if (chosen->variant == "large") throw OutOfMemory("no scratch memory");
            if (chosen->variant != "wrong") changed.push_back(command);
        }
        auto made = std::make_unique<WrappedRecording>(record_theirs(changed, scratch));
        made_[made.get()] = {recorded_as, unsigned(std::ranges::count_if(commands, [](const Command& each) {
                                 return std::holds_alternative<Launch>(each);
                             }))};
        return made;
    }
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        std::this_thread::sleep_for(pause);
        const auto& [way, launches] = made_.at(&recording);
        if (!way.empty()) ran[way] += launches;
        WrappedDevice::do_submit(recording, submission, after);
    }
    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        const auto& [way, launches] = made_.at(&recording);
        const auto again = launches > 1 ? us.find(way + " again") : us.end();
        const double each = again != us.end() ? again->second : us.at(way);
        std::vector<double> moments{0};
        while (moments.size() <= launches) moments.push_back(moments.back() + each * 1e-6);
        return moments;
    }

private:
    struct Made {
        std::string way;
        unsigned launches = 0;
    };
    const Choices& choices_;
    DeviceInfo info_ = WrappedDevice::info();
    std::map<const RecordingState*, Made> made_;
};

/// Two kinds of ReLUs, one of them twice
inline Plan relus() {
    Plan plan;
    for (const unsigned count : {4096u, 4096u, 65536u}) {
        const std::string number = fmt::format("{}", plan.operations().size());
        const TensorId x = plan.activation("x" + number, {count}), y = plan.activation("y" + number, {count});
        plan.add("relu" + number, kernels::relu_forward, {.x = x, .y = y, .count = count, .slope = 0});
        plan.add("silu" + number, kernels::silu_forward, {.x = x, .y = y, .count = count, .slope = 0});
    }
    plan.place();
    return plan;
}

} // namespace towers::test
