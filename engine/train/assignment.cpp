#include "engine/train/assignment.h"

#include "backends/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace towers {

void add_notice(std::string& notice, const std::string& more) {
    if (!notice.empty() && !more.empty()) notice += "; ";
    notice += more;
}

Assignment::Assignment(const SharePolicy& policy, const std::vector<std::string>& towers, unsigned global,
                       unsigned group, bool outlive)
    : policy_(policy), group_(group), outlive_(outlive),
      first_(towers::first_shares(policy, global, unsigned(towers.size()), group)), announced_(first_) {
    for (std::size_t i = 0; i < towers.size(); ++i)
        towers_.push_back({.name = fmt::format("tower_{} ({})", i, towers[i])});
    if (policy.automatic && towers.size() > 1) balancer_.emplace(global, group, first_);
}

std::vector<unsigned> Assignment::shares(std::uint64_t step) const {
    if (balancer_) return balancer_->shares();
    const std::vector<unsigned>& shares =
        policy_.recorded.empty() ? first_ : shares_at(policy_.recorded, step).shares;
    std::vector<bool> lost;
    for (const Standing& tower : towers_) lost.push_back(tower.lost);
    const bool all_there = std::ranges::find(lost, true) == lost.end();
    return all_there ? shares : shares_without(lost, shares, group_);
}

std::vector<Share> Assignment::to_take(std::uint64_t step) const {
    std::vector<Share> taken = as_recorded(step);
    const auto works = [](const Share& share) { return share.examples > 0; };
    if (taken.size() > 1 && std::ranges::count_if(taken, works) == 1)
        std::ranges::find_if(taken, works)->alone = true;
    return taken;
}

std::vector<Share> Assignment::as_recorded(std::uint64_t step) const {
    const std::vector<unsigned> examples = shares(step);
    if (policy_.recorded.empty()) return to_shares(examples);
    const SharesFrom& recorded = balancer_ ? policy_.recorded.front() : shares_at(policy_.recorded, step);
    if (recorded.shares != examples) return to_shares(examples); // by their times, or without a lost tower
    return to_shares(examples, recorded.micro_batches);
}

std::vector<unsigned> Assignment::probe() const {
    return balancer_ && policy_.recorded.empty() ? balancer_->probe() : std::vector<unsigned>();
}

void Assignment::probed(std::span<const SeenTower> towers) { balancer_->probed(take_note(towers)); }

std::string Assignment::begin(std::span<const SeenTower> towers) {
    tell_micro_batches(towers); // the user sees them before the first step
    if (!balancer_ || balancer_->shares() == announced_) return "";
    announced_ = balancer_->shares();
    return fmt::format("a short trial of each tower gives shares of {}{}", to_string(announced_),
                       idle_towers());
}

std::string Assignment::observe(std::uint64_t step, std::span<const SeenTower> towers, double seconds,
                                bool repeated, bool next_begun) {
    const std::vector<double> work = take_note(towers);
    std::string notice;
    if (balancer_) {
        if (!repeated) balancer_->observe(work, seconds);
        if (balancer_->trying()) return "";
        if (balancer_->shares() != announced_) {
            // Set by a step that had to be repeated
            const bool taken = std::ranges::equal(balancer_->shares(), towers, {}, {}, &SeenTower::share);
            notice =
                fmt::format("shares are {} from step {} on, before {}{}", to_string(balancer_->shares()),
                            taken ? step : step + (next_begun ? 2 : 1), to_string(announced_), idle_towers());
            announced_ = balancer_->shares();
        }
    }
    add_notice(notice, tell_micro_batches(towers));
    return notice;
}

std::string Assignment::drop(const TowerFailed& failed, std::string_view repeated) {
    Standing& tower = towers_[failed.tower];
    if (balancer_ && failed.share > tower.held && tower.held > 0) {
        // Halves the distance, so that a few tries find what fits
        limit(failed.tower, (tower.held + failed.share) / 2 / group_ * group_, failed);
        return fmt::format("{} cannot take {} examples: {}", tower.name, failed.share, failed.what());
    }
    tower.lost = true;
    if (!outlive_ || std::ranges::all_of(towers_, &Standing::lost)) std::rethrow_exception(failed.cause);
    if (balancer_) limit(failed.tower, 0, failed);
    return fmt::format("{} failed and is dropped, and the others repeat {}: {}{}", tower.name, repeated,
                       failed.what(),
                       failed.lost ? "; if it is lost again, try a smaller --micro-batch" : "");
}

/// Limits a tower's share after a failure.
void Assignment::limit(std::size_t tower, unsigned share, const TowerFailed& failed) {
    try {
        balancer_->limit(tower, share);
    } catch (const UsageError& error) { // the others cannot take its examples
        throw DeviceError(fmt::format("{}; without that, {}", failed.what(), error.what()));
    }
}

/// Keeps the largest share that each tower has had. Returns each tower's own seconds in the step.
std::vector<double> Assignment::take_note(std::span<const SeenTower> towers) {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        towers_[i].held = std::max(towers_[i].held, towers[i].share);
        seconds.push_back(towers[i].seconds);
    }
    return seconds;
}

/// Why towers are idle, each reason after a semicolon.
std::string Assignment::idle_towers() const {
    std::string text;
    for (std::size_t i = 0; i < towers_.size(); ++i)
        if (const auto idle = balancer_->idle(i); idle && !towers_[i].lost)
            text += fmt::format("; {} gets nothing to do: {} {:.4g} ms, and a step of the others {:.4g} ms",
                                towers_[i].name,
                                idle->measured ? "a step with it takes" : "a smallest share takes it",
                                idle->with * 1e3, idle->without * 1e3);
    return text;
}

/// Reports towers whose micro-batches have changed because of their memory.
std::string Assignment::tell_micro_batches(std::span<const SeenTower> towers) {
    std::string text;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        if (towers[i].share == 0 || towers_[i].lost) continue;
        const AtOnce& at_once = towers[i].at_once;
        const AtOnce before = std::exchange(towers_[i].at_once, at_once);
        const bool changed = at_once.micro_batches != before.micro_batches ||
                             at_once.deviates() != before.deviates() || at_once.saves != before.saves;
        if (changed && !(at_once.reason.empty() && at_once.saves.empty()))
            add_notice(text, fmt::format("{}: {}", towers_[i].name, to_string(at_once)));
    }
    return text;
}

} // namespace towers
