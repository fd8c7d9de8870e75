#include "engine/towers/group.h"

#include "engine/clock.h"

#include <algorithm>
#include <cmath>

namespace towers {
namespace {

std::vector<std::span<float>> staged_by(const Towers& towers) {
    std::vector<std::span<float>> staged;
    for (const auto& tower : towers) staged.push_back(tower->staged_gradients());
    return staged;
}

} // namespace

TowerGroup::TowerGroup(Towers& towers, std::unique_ptr<Device> device, const UpdateSpec& update)
    : towers_(towers), layout_(*update.layout),
      stage_(std::move(device), update, staged_by(towers), towers[0]->buckets()), seconds_(towers.size()),
      progress_(towers.size()) {
    std::vector<unsigned> shares;
    for (const auto& tower : towers) {
        workers_.push_back(std::make_unique<Worker>());
        shares.push_back(tower->share());
    }
    take(shares);
}

void TowerGroup::take(std::span<const unsigned> shares) {
    const auto has = [](const auto& tower, unsigned share) { return tower->share() == share; };
    if (!active_.empty() && std::ranges::equal(towers_, shares, has)) return;
    active_.clear();
    exchanges_.clear();
    for (std::size_t i = 0; i < towers_.size(); ++i) try {
            if (towers_[i]->share() != shares[i]) towers_[i]->take(shares[i]);
        } catch (const DeviceError& error) {
            throw TowerFailed(error, i, shares[i]);
        }
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        if (shares[i] == 0) continue;
        active_.push_back(i);
        auto& exchanges = exchanges_.emplace_back();
        for (const Tower::Part& part : towers_[i]->parts())
            for (const Exchange& exchange : part.exchanges) exchanges.push_back(&exchange);
    }
    stage_.expect(active_);
}

void TowerGroup::run(std::size_t index) {
    Tower& tower = *towers_[index];
    TowerProgress& progress = progress_[index];
    const Clock::time_point begin = Clock::now();
    double waited = 0;
    try {
        std::ranges::copy(part(stage_.state(), layout_.trained()), tower.staged_parameters().begin());
        tower.submit_from(0);
        for (std::size_t i = 0; i < tower.parts().size(); ++i) {
            tower.wait(i);
            progress.buckets.advance(tower.parts()[i].buckets);
            if (tower.parts()[i].exchanges.empty()) continue;
            {
                const Stopwatch watch(waited);
                if (!exchange(index, i)) return progress.fail();
            }
            tower.submit_from(i + 1);
        }
    } catch (...) {
        progress.fail();
        throw;
    }
    seconds_[index] = seconds_since(begin) - waited;
}

/// Merges what all towers give at the exchanges behind a tower's part. False: a tower has failed.
bool TowerGroup::exchange(std::size_t index, std::size_t at) {
    const std::vector<Exchange>& own = towers_[index]->parts()[at].exchanges;
    const std::size_t first = progress_[index].exchanges.count();
    progress_[index].exchanges.advance(first + own.size());
    for (const std::size_t other : active_)
        if (!progress_[other].exchanges.wait_for(first + own.size())) return false;
    // Another tower may have cut its step elsewhere, but all have the same exchanges in the same order.
    std::vector<const Exchange*> given(active_.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
        std::ranges::transform(exchanges_, given.begin(),
                               [&](const auto& of_tower) { return of_tower[first + k]; });
        merge(given, own[k]);
    }
    return true;
}

StepResults TowerGroup::step(const StepNumbers& numbers) {
    waited_ = 0;
    std::ranges::fill(seconds_, 0.0);
    for (TowerProgress& progress : progress_) progress.restart();
    std::vector<std::future<void>> done;
    try {
        for (const std::size_t i : active_) done.push_back(workers_[i]->run([this, i] { run(i); }));
    } catch (...) { // else those that run would wait for those that do not
        for (std::size_t k = done.size(); k < active_.size(); ++k) progress_[active_[k]].fail();
        for (std::future<void>& each : done) each.wait();
        throw;
    }
    bool all_well = true;
    for (std::size_t bucket = 0; all_well && bucket < towers_[0]->buckets().size(); ++bucket) {
        for (const std::size_t i : active_) {
            const Stopwatch watch(waited_);
            all_well = progress_[i].buckets.wait_for(bucket + 1) && all_well;
        }
        if (all_well) stage_.average(bucket);
    }
    {
        const Stopwatch watch(waited_);
        for (std::future<void>& each : done) each.wait(); // for all, before the first exception leaves
    }
    for (std::size_t k = 0; k < done.size(); ++k) try {
            done[k].get();
        } catch (const DeviceError& error) {
            throw TowerFailed(error, active_[k], 0);
        }
    std::vector<float> cross_entropies;
    for (const auto& tower : towers_) cross_entropies.push_back(tower->results().cross_entropy);
    return stage_.update(numbers, cross_entropies);
}

TowerGroup::Culprit TowerGroup::find_culprit() const {
    const auto all_finite = [](std::span<const float> values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    const auto loss_of = [&](std::size_t tower) { return towers_[tower]->results().cross_entropy; };
    // An exchange hands what is not finite to all: the tower that gave it first has made it.
    for (std::size_t k = 0; k < exchanges_[0].size(); ++k)
        for (std::size_t i = 0; i < active_.size(); ++i)
            if (!std::ranges::all_of(exchanges_[i][k]->given, all_finite))
                return {active_[i], loss_of(active_[i]), "a batch norm's sum"};
    for (const std::size_t i : active_) {
        if (!std::isfinite(loss_of(i))) return {i, loss_of(i), "the loss"};
        for (const VariableSlot& slot : layout_.variables) {
            const auto gradients = towers_[i]->staged_gradients().subspan(slot.range.offset / sizeof(float),
                                                                          slot.variable.elements());
            if (!all_finite(gradients)) return {i, loss_of(i), "the gradient of " + slot.variable.name};
        }
    }
    return {active_[0], loss_of(active_[0]), "the sum of the towers' gradients"};
}

} // namespace towers
