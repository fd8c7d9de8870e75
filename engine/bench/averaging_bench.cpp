#include "engine/bench/averaging_bench.h"

#include "backends/backend.h"
#include "engine/clock.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <thread>

namespace towers {
AveragingBench::AveragingBench(const Recipe& recipe, unsigned towers, unsigned threads)
    : towers_(towers), threads_(threads), layout_(layout_of(recipe)), bytes_(layout_.variable_bytes),
      memory_(open_device("cpu", {.threads = threads})) {
    std::vector<std::span<float>> staged;
    for (unsigned tower = 0; tower < towers; ++tower) {
        gradients_.push_back(memory_->allocate(bytes_, Memory::staging));
        staged.push_back(gradients_.back().host<float>());
        std::fill(staged.back().begin(), staged.back().end(), float(tower + 1));
    }
    source_ = memory_->allocate(std::size_t(moved_bytes() / 2), Memory::staging);
    target_ = memory_->allocate(source_.bytes(), Memory::staging);
    const ArenaRange all{0, bytes_};
    stage_ = std::make_unique<AveragingStage>(
        open_device("cpu", {.threads = threads}),
        UpdateSpec{.layout = &layout_, .optimizer = recipe.optimizer.get()}, staged, std::span(&all, 1));
}

unsigned AveragingBench::rounds() const {
    constexpr double all = 256e6; // bytes: enough for a median
    return unsigned(std::clamp(all / moved_bytes(), 3.0, 50.0));
}

double AveragingBench::average_seconds() {
    std::vector<double> seconds;
    for (unsigned round = 0; round < rounds(); ++round) {
        const Clock::time_point begin = Clock::now();
        stage_->average(0);
        seconds.push_back(seconds_since(begin));
    }
    return median_of(seconds);
}

double AveragingBench::memcpy_seconds() {
    const std::span<std::byte> source = source_.host<std::byte>(), target = target_.host<std::byte>();
    std::barrier gate{std::ptrdiff_t(threads_)};
    const auto copy_part = [&](unsigned thread) {
        const std::size_t begin = source.size() * thread / threads_;
        const std::size_t end = source.size() * (thread + 1) / threads_;
        std::memcpy(&target[begin], &source[begin], end - begin);
        gate.arrive_and_wait();
    };
    std::vector<std::jthread> others;
    for (unsigned thread = 1; thread < threads_; ++thread)
        others.emplace_back([&, thread] {
            gate.arrive_and_wait();
            for (unsigned round = 0; round < rounds(); ++round) copy_part(thread);
        });
    std::vector<double> seconds;
    gate.arrive_and_wait(); // the threads' start does not count
    for (unsigned round = 0; round < rounds(); ++round) {
        const Clock::time_point begin = Clock::now();
        copy_part(0);
        seconds.push_back(seconds_since(begin));
    }
    return median_of(seconds);
}

void AveragingBench::repeat() {
    const double average = moved_bytes() / average_seconds() * 1e-9;
    const double copy = 2.0 * double(source_.bytes()) / memcpy_seconds() * 1e-9;
    gb_per_s_.push_back(average);
    memcpy_gb_per_s_.push_back(copy);
    ratio_.push_back(average / copy);
}

void AveragingBench::reset() {
    gb_per_s_.clear();
    memcpy_gb_per_s_.clear();
    ratio_.clear();
}

AveragingFigures AveragingBench::figures() const {
    return {towers_, bytes_, spread_of(gb_per_s_), spread_of(memcpy_gb_per_s_), spread_of(ratio_)};
}

} // namespace towers
