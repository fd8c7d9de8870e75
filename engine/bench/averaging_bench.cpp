#include "engine/bench/averaging_bench.h"

#include "backends/backend.h"
#include "engine/clock.h"
#include "engine/recipes/recipe_plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace towers {

AveragingBench::AveragingBench(const Recipe& recipe, unsigned towers, unsigned threads)
    : towers_(towers), layout_(layout_of(recipe)), buckets_(make_buckets(layout_, bucket_bytes(layout_))),
      memory_(open_host_device({.threads = 1})) {
    std::vector<StagedByTower> staged;
    for (unsigned tower = 0; tower < towers; ++tower) {
        gradients_.push_back(memory_->allocate(layout_.variable_bytes, Memory::staging));
        parameters_.push_back(memory_->allocate(layout_.trained_bytes, Memory::staging));
        staged.push_back({gradients_.back().host<float>(), parameters_.back().host<float>()});
        std::ranges::fill(gradients_.back().host<float>(), 1e-3f * float(tower + 1));
    }
    reducer_ = std::make_unique<HostReducer>(
        OpenOptions{.threads = reducer_threads(threads, layout_)}, Milestones::Spin::zero(),
        UpdateSpec{.layout = &layout_, .optimizer = recipe.optimizer.get()}, std::move(staged), buckets_);
    source_ = memory_->allocate(std::size_t(moved_bytes() / 2), Memory::staging);
    target_ = memory_->allocate(source_.bytes(), Memory::staging);
    for (unsigned i = 1; i < threads; ++i) copiers_.push_back(std::make_unique<Worker>());
}

double AveragingBench::moved_bytes() const {
    return double(towers_ * (layout_.variable_bytes + layout_.trained_bytes) + 2 * layout_.bytes);
}

void AveragingBench::step() {
    std::vector<std::size_t> all(towers_);
    std::iota(all.begin(), all.end(), std::size_t(0));
    reducer_->begin({}, all); // a learning rate of 0 keeps the state finite
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) reducer_->give(bucket + 1);
    reducer_->end({});
}

void AveragingBench::copy() {
    const std::span<std::byte> source = source_.host<std::byte>(), target = target_.host<std::byte>();
    const auto copy_part = [&](std::size_t part) {
        const std::size_t begin = source.size() * part / (copiers_.size() + 1);
        const std::size_t end = source.size() * (part + 1) / (copiers_.size() + 1);
        std::memcpy(&target[begin], &source[begin], end - begin);
    };
    std::vector<std::function<void()>> others;
    for (std::size_t i = 0; i < copiers_.size(); ++i) others.push_back([&, i] { copy_part(i + 1); });
    for (std::size_t i = 0; i < copiers_.size(); ++i) copiers_[i]->start(others[i]);
    copy_part(0);
    for (const auto& copier : copiers_) copier->get();
}

void AveragingBench::repeat(const std::function<void()>& prepare) {
    constexpr double all = 256e6; // bytes: enough for a median
    const int rounds = int(std::clamp(all / moved_bytes(), 3.0, 50.0));
    const auto median_rate = [&](auto&& work) {
        std::vector<double> seconds;
        for (int round = 0; round < rounds; ++round) {
            prepare();
            const Clock::time_point begin = Clock::now();
            work();
            seconds.push_back(seconds_since(begin));
        }
        return moved_bytes() / median_of(seconds) * 1e-9;
    };
    gb_per_s_.push_back(median_rate([this] { step(); }));
    memcpy_gb_per_s_.push_back(median_rate([this] { copy(); }));
    ratio_.push_back(gb_per_s_.back() / memcpy_gb_per_s_.back());
}

void AveragingBench::reset() {
    gb_per_s_.clear();
    memcpy_gb_per_s_.clear();
    ratio_.clear();
}

AveragingFigures AveragingBench::figures() const {
    return {towers_, layout_.variable_bytes, spread_of(gb_per_s_), spread_of(memcpy_gb_per_s_),
            spread_of(ratio_)};
}

} // namespace towers
