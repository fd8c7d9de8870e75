#include "engine/reduce/partial_sum.h"

#include <algorithm>

namespace towers {

PartialSum::PartialSum(const OpenOptions& host, Milestones::Spin spin, std::vector<RankPart::Input> inputs,
                       std::size_t buckets, std::span<const Slice> slices,
                       const std::function<bool(const Slice&)>& rounds, std::size_t end)
    : inputs_(std::move(inputs)), ready_(buckets), buckets_(buckets, spin) {
    const bool may_add = inputs_.size() > 1;
    if (!may_add && (inputs_.empty() || !rounds)) return;
    if (may_add) {
        host_ = open_host_device({.threads = 1, .exact_products = host.exact_products});
        std::size_t whole = 0; // bytes of the variables
        for (const auto& [gradients, only_own] : inputs_)
            if (!only_own) whole = std::max(whole, gradients.size_bytes());
        memory_ = host_->allocate(whole, Memory::staging);
    }
    if (rounds) rounded_.emplace(end / sizeof(float));
    std::size_t place = 0;
    for (const Slice& slice : slices) {
        const auto& [offset, bytes] = slice.range;
        const bool is_rounded = rounds && offset < end && rounds(slice);
        for (std::size_t done = 0; done < bytes && (may_add || is_rounded); done += block_bytes) {
            blocks_.push_back({{offset + done, std::min(block_bytes, bytes - done)},
                               slice.bucket,
                               place + done,
                               is_rounded});
            buckets_.add_block(slice.bucket);
        }
        place += bytes;
        ready_[slice.bucket] = blocks_.size();
    }
    for (std::size_t bucket = 1; bucket < buckets; ++bucket)
        ready_[bucket] = std::max(ready_[bucket], ready_[bucket - 1]);
    const std::size_t most = may_add ? cpu_threads(host.threads) : 1; // rounding alone is little work
    team_ = std::make_unique<Team>(std::clamp<std::size_t>(blocks_.size() / 4, 1, most), spin,
                                   [this](std::size_t, std::size_t block, std::size_t) { work_on(block); });
}

/// Whether the step's inputs are added up, or one of them is the sum.
bool PartialSum::adds() const {
    return active_.size() > 1 || (active_.size() == 1 && inputs_[active_[0]].only_own);
}

void PartialSum::begin(const StepNumbers& numbers, std::span<const std::size_t> inputs) {
    active_.assign(inputs.begin(), inputs.end());
    works_ = adds() || (active_.size() == 1 && rounded_);
    buckets_.restart(works_);
    if (rounded_) rounded_->begin(numbers.loss_scale);
    if (works_) team_->begin();
}

void PartialSum::give(std::size_t buckets) {
    buckets_.give(buckets);
    if (works_ && buckets > 0) team_->release(ready_[buckets - 1]);
}

void PartialSum::work_on(std::size_t index) {
    const Block& block = blocks_[index];
    const auto given = [&](std::size_t i) { return inputs_[active_[i]].at(block.range, block.place); };
    const std::span<float> sum = adds() ? part(memory_.host<float>(), block.range) : std::span<float>();
    if (active_.size() > 1)
        add_in_order(active_.size(), given, sum);
    else if (adds())
        std::ranges::copy(given(0), sum.begin());
    if (block.rounds) rounded_->round(sums(), block.range);
    buckets_.count_done(block.bucket);
}

void PartialSum::fail() {
    if (works_) team_->cancel();
    buckets_.fail();
}

void PartialSum::end() {
    if (works_) team_->end();
}

void PartialSum::keep() {
    if (works_ && rounded_) rounded_->keep();
}

void PartialSum::forget() {
    if (rounded_) rounded_->forget();
}

std::span<const float> PartialSum::sums() const {
    if (active_.empty()) return {};
    return adds() ? memory_.host<float>() : inputs_[active_[0]].gradients;
}

} // namespace towers
