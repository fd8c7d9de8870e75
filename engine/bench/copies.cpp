#include "engine/bench/copies.h"

#include "backends/watched_device.h"
#include "engine/clock.h"

#include <algorithm>

namespace towers {
namespace {

/// Enough for a median, in no more time than a few large copies take.
unsigned runs_of(std::size_t bytes) {
    constexpr std::size_t all = std::size_t(128) << 20;
    return unsigned(std::clamp<std::size_t>(all / bytes, 2, 20));
}

} // namespace

CopyBench::CopyBench(Device& device, const std::vector<std::size_t>& sizes) : device_(device) {
    const std::size_t largest = std::ranges::max(sizes);
    staging_ = device.allocate(largest, Memory::staging);
    there_ = device.allocate(largest, Memory::device);
    const auto add = [&](const char* direction, const Buffer& source, const Buffer& target,
                         std::size_t bytes) {
        const Command commands[] = {Timestamp{}, Copy{{&source, 0, bytes}, {&target, 0, bytes}}, Timestamp{}};
        cases_.push_back({direction, bytes, device.record(commands), {}, {}});
    };
    for (const std::size_t bytes : sizes) add("to_device", staging_, there_, bytes);
    for (const std::size_t bytes : sizes) add("from_device", there_, staging_, bytes);
}

void CopyBench::repeat() {
    const Attended attended; // as in a training
    for (Case& each : cases_) {
        std::vector<double> host, device;
        for (unsigned run = 0; run < runs_of(each.bytes); ++run) {
            const Clock::time_point begin = Clock::now();
            device_.wait(device_.submit(each.recording));
            host.push_back(seconds_since(begin));
            const std::vector<double> moments = device_.timestamps(each.recording);
            // A clock may be too coarse for a small copy.
            if (!moments.empty()) device.push_back(std::max(moments[1] - moments[0], 1e-9));
        }
        each.gb_per_s.push_back(double(each.bytes) * 1e-9 / median_of(host));
        if (!device.empty()) each.device_gb_per_s.push_back(double(each.bytes) * 1e-9 / median_of(device));
    }
}

void CopyBench::reset() {
    for (Case& each : cases_) {
        each.gb_per_s.clear();
        each.device_gb_per_s.clear();
    }
}

std::vector<CopyFigures> CopyBench::figures() const {
    std::vector<CopyFigures> figures;
    for (const Case& each : cases_) {
        CopyFigures& copy = figures.emplace_back();
        copy.direction = each.direction;
        copy.bytes = each.bytes;
        copy.gb_per_s = spread_of(each.gb_per_s);
        if (!each.device_gb_per_s.empty()) copy.device_gb_per_s = spread_of(each.device_gb_per_s);
    }
    return figures;
}

void EmptyStepBench::repeat() {
    const Attended attended;
    constexpr unsigned runs = 100;
    std::vector<double> seconds;
    for (unsigned run = 0; run < runs; ++run) {
        const Clock::time_point begin = Clock::now();
        device_.wait(device_.submit(recording_));
        seconds.push_back(seconds_since(begin));
    }
    us_.push_back(median_of(seconds) * 1e6);
}

} // namespace towers
