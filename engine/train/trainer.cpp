#include "engine/train/trainer.h"

#include "engine/clock.h"
#include "engine/error.h"
#include "engine/trace/traced_device.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <utility>

namespace towers {
namespace {

Splitting splitting_of(const Model& model, unsigned most) {
    Splitting splitting{.group = model.group(), .most = most, .obstacle = {}};
    if (const Node* const joining = model.joining_layer())
        splitting.obstacle =
            fmt::format("the batch norm of layer '{}' takes the whole global batch, which cannot be done in "
                        "micro-batches; give it groups of examples (group = N)",
                        joining->name);
    if (most == 0) return splitting;
    if (!splitting.obstacle.empty())
        throw UsageError(fmt::format("--micro-batch {}: {}", most, splitting.obstacle));
    if (most < splitting.group)
        throw UsageError(
            fmt::format("--micro-batch {}: batch norm takes groups of {} examples; give at least that many",
                        most, splitting.group));
    return splitting;
}

} // namespace

Trainer::Trainer(const Recipe& recipe, const TrainerOptions& options, const DataSource& data)
    : recipe_(recipe), options_(options), records_(data.size()), layout_(layout_of(recipe_)),
      sampler_(std::uint32_t(data.size()), options.seed, options.shuffle), feed_(data),
      patience_(options.device_timeout, 1) {
    check_data(recipe, data.info());
    if (options.trace) host_track_ = options.trace->add_track("host", "steps");
    const unsigned count = unsigned(options.towers.size());
    const Splitting splitting = splitting_of(recipe.model, options.micro_batch);
    const std::vector<unsigned> shares =
        first_shares(options.shares, options.global_batch, count, recipe.model.group());
    if (count > 1 && options.shares.automatic)
        balancer_.emplace(options.global_batch, recipe.model.group(), shares);
    to_probe_ = balancer_ && options.shares.recorded.empty() && !balancer_->probe().empty();
    const UpdateSpec update{.layout = &layout_,
                            .optimizer = recipe_.optimizer.get(),
                            .average_first = options.quirks.unordered_average};
    for (unsigned i = 0; i < count; ++i) {
        auto device = options.open_device(options.towers[i], options.open);
        if (options.trace) device = std::make_unique<TracedDevice>(std::move(device), options.trace, i);
        const NetworkSpec any_share{.model = &recipe_.model,
                                    .layout = &layout_,
                                    .pipeline = &recipe_.pipeline,
                                    .batch = 0,
                                    .global_batch = options.global_batch,
                                    .stored = data.image_size(),
                                    .records = feed_.slots(),
                                    .seed = options.seed,
                                    .distort = options.distort,
                                    .largest_allocation = device->info().largest_allocation};
        const Planner plan = [=](unsigned share, unsigned most) {
            NetworkSpec spec = any_share;
            spec.batch = share;
            spec.most = most;
            return count == 1 ? plan_single_step(spec, update) : plan_shared_step(spec);
        };
        const unsigned share = std::max(to_probe_ ? 0 : shares[i], recipe.model.group());
        towers_.push_back(std::make_unique<Tower>(std::move(device), feed_, plan, share, splitting));
    }
    if (count > 1) {
        group_.emplace(towers_, options.open, update, options.device_timeout, options.trace.get(),
                       host_track_);
        if (!to_probe_) group_->take(shares);
    }
    first_shares_ = announced_ = shares;
    held_.resize(count);
    lost_.resize(count);
    use_.resize(count);
    for (const auto& tower : towers_) pieces_.push_back(tower->at_once().micro_batches);
    // On a cpu device there is no driver to hang in.
    if (count == 1 && options.give_up && std::isfinite(options.device_timeout) &&
        towers_[0]->info().kind != DeviceKind::cpu)
        watchdog_.emplace([this] { options_.give_up(DeviceError(no_answer(towers_[0]->info(), limit_))); });
    load(initial_state());
}

TrainingState Trainer::initial_state() const {
    return {.state = towers::initial_state(layout_, options_.seed)};
}

void Trainer::load(const TrainingState& state) {
    step_ = state.step;
    examples_ = state.examples;
    if (group_) {
        group_->load(state.state);
        return;
    }
    const Watchdog::Watch watch(watchdog_, (limit_ = patience_.limit_of_copies()).seconds());
    towers_[0]->load(state.state);
}

TrainingState Trainer::save() {
    TrainingState state{step_, examples_, std::vector<float>(layout_.bytes / sizeof(float))};
    if (group_) {
        std::ranges::copy(group_->state(), state.state.begin());
        return state;
    }
    const Watchdog::Watch watch(watchdog_, (limit_ = patience_.limit_of_copies()).seconds());
    towers_[0]->save(state.state);
    return state;
}

std::vector<float> Trainer::gradients() {
    std::vector<float> gradients(layout_.variable_bytes / sizeof(float));
    if (group_)
        group_->save_gradients(gradients);
    else
        towers_[0]->save_gradients(gradients);
    return gradients;
}

std::uint64_t Trainer::steps_until(double epochs) const {
    const double left = epochs * double(records_) - double(examples_);
    const double steps = std::ceil(std::max(0.0, left) / double(options_.global_batch));
    constexpr double endless = 1e18; // still fits a 64-bit number
    return step_ + std::uint64_t(std::min(steps, endless));
}

/// Of the next step.
double Trainer::learning_rate() const {
    return options_.learning_rate *
           recipe_.schedule.factor_at({.step = step_,
                                       .examples = examples_,
                                       .records = records_,
                                       .tower_batch = options_.global_batch / unsigned(towers_.size()),
                                       .by_steps = options_.quirks.step_schedule});
}

std::string Trainer::probe(const std::atomic<bool>* stop) {
    if (!std::exchange(to_probe_, false)) return "";
    const StepNumbers numbers = numbers_of_update(recipe_, learning_rate(), step_ + 1);
    std::vector<Example> examples(options_.global_batch);
    sampler_.fill(examples_, examples);
    feed_.bring(examples);
    StepReport report{};
    for (bool over = false; !over;) {
        const std::vector<unsigned> tried = balancer_->probe();
        over = tried.empty() || (stop != nullptr && *stop);
        try {
            prepare(over ? shares() : tried, numbers, examples);
            if (over) continue;
            group_->step(numbers, false);
            std::ranges::transform(tried, held_, held_.begin(), std::ranges::max);
            balancer_->probed(work());
        } catch (const TowerFailed& failed) {
            let_go(failed, report);
            over = false;
        }
    }
    if (balancer_->shares() != announced_)
        report.notice +=
            fmt::format("{}a short trial of each tower gives shares of {}{}",
                        report.notice.empty() ? "" : "; ", to_string(balancer_->shares()), idle_towers());
    announced_ = balancer_->shares();
    for (std::size_t i = 0; i < towers_.size(); ++i) pieces_[i] = towers_[i]->at_once().micro_batches;
    return report.notice;
}

StepReport Trainer::step() {
    const std::string found = probe();
    double seconds = waited_ = averaging_ = 0;
    StepReport report{};
    {
        const std::string name = fmt::format("step {}", step_);
        if (options_.trace) options_.trace->begin_step(step_);
        const Interval taking(seconds, options_.trace.get(), host_track_, name);
        take_step(report);
    }
    report.host_seconds = seconds - waited_;
    seconds_ += seconds;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        use_[i].share = report.shares[i];
        use_[i].examples += report.shares[i];
        if (group_) use_[i].times += group_->times()[i];
    }
    host_use_.averaging += averaging_;
    host_use_.waiting += waited_;
    if (balancer_) balance(report, seconds);
    tell_micro_batches(report);
    if (!found.empty()) report.notice = found + (report.notice.empty() ? "" : "; ") + report.notice;
    return report;
}

std::vector<unsigned> Trainer::shares() const {
    if (balancer_) return balancer_->shares();
    const std::vector<SharesFrom>& recorded = options_.shares.recorded;
    const std::vector<unsigned>& shares = recorded.empty() ? first_shares_ : shares_at(recorded, step_);
    const bool all_there = std::ranges::find(lost_, true) == lost_.end();
    return all_there ? shares : shares_without(lost_, shares, recipe_.model.group());
}

/// Holds a tower to a share because of what failed.
void Trainer::limit(std::size_t tower, unsigned share, const TowerFailed& failed) {
    try {
        balancer_->limit(tower, share);
    } catch (const UsageError& error) { // the others cannot make up for it
        throw DeviceError(fmt::format("{}; without that, {}", failed.what(), error.what()));
    }
}

/// Arranges that the step can be repeated without the tower, or with a share for it that it can hold.
void Trainer::let_go(const TowerFailed& failed, StepReport& report) {
    const std::size_t i = failed.tower;
    const std::string name =
        fmt::format("{}tower_{} ({})", report.notice.empty() ? "" : "; ", i, towers_[i]->info().id);
    if (balancer_ && failed.share > held_[i] && held_[i] > 0) {
        report.notice += fmt::format("{} cannot take {} examples: {}", name, failed.share, failed.what());
        // Halfway, so that a few tries find what fits
        const unsigned group = recipe_.model.group();
        limit(i, (held_[i] + failed.share) / 2 / group * group, failed);
        return;
    }
    lost_[i] = true;
    if (!options_.outlive_devices || std::ranges::find(lost_, false) == lost_.end()) {
        if (failed.out_of_memory) throw OutOfMemory(failed.what());
        if (failed.lost) throw DeviceLost(failed.what());
        throw DeviceError(failed.what());
    }
    if (balancer_) limit(i, 0, failed);
    report.notice +=
        fmt::format("{} failed and is let go, and the others repeat the step: {}{}", name, failed.what(),
                    failed.lost ? "; if it is lost again, try a smaller --micro-batch" : "");
}

/// Lets the towers' times in the step just taken decide the shares of the next.
void Trainer::balance(StepReport& report, double seconds) {
    if (report.notice.empty()) balancer_->observe(work(), seconds); // else it had two attempts
    if (balancer_->trying() || balancer_->shares() == announced_) return;
    const bool taken = report.shares == balancer_->shares(); // by a step that had to be repeated
    report.notice +=
        fmt::format("{}shares are {} from step {} on, before {}", report.notice.empty() ? "" : "; ",
                    to_string(balancer_->shares()), taken ? report.step : step_, to_string(announced_));
    report.notice += idle_towers();
    announced_ = balancer_->shares();
}

/// Each tower's own seconds of the step just taken.
std::vector<double> Trainer::work() const {
    std::vector<double> work;
    for (const TowerTimes& times : group_->times()) work.push_back(times.work);
    return work;
}

/// Why towers have nothing to do, each behind a semicolon.
std::string Trainer::idle_towers() const {
    std::string text;
    for (std::size_t i = 0; i < towers_.size(); ++i)
        if (const auto idle = balancer_->idle(i); idle && !lost_[i])
            text += fmt::format(
                "; tower_{} ({}) gets nothing to do: {} {:.4g} ms, and a step of the others {:.4g} ms", i,
                towers_[i]->info().id, idle->measured ? "a step with it takes" : "a smallest share takes it",
                idle->with * 1e3, idle->without * 1e3);
    return text;
}

/// Says so when a tower's memory has made it take its share in other pieces than before.
void Trainer::tell_micro_batches(StepReport& report) {
    if (balancer_ && balancer_->trying()) return;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        if (report.shares[i] == 0 || lost_[i]) continue;
        const AtOnce at_once = towers_[i]->at_once();
        if (at_once.micro_batches == std::exchange(pieces_[i], at_once.micro_batches) ||
            at_once.reason.empty())
            continue;
        report.notice += fmt::format("{}tower_{} ({}): {}", report.notice.empty() ? "" : "; ", i,
                                     towers_[i]->info().id, to_string(at_once));
    }
}

void Trainer::take_step(StepReport& report) {
    report.step = step_;
    report.examples = examples_;
    report.learning_rate = learning_rate();
    const StepNumbers numbers = numbers_of_update(recipe_, report.learning_rate, step_ + 1);

    std::vector<Example> examples(options_.global_batch);
    sampler_.fill(examples_, examples);
    feed_.bring(examples);
    StepResults results{};
    for (bool taken = false; !taken;) {
        const Clock::time_point begin = Clock::now();
        try {
            results = attempt_step(numbers, examples);
            taken = true;
        } catch (const TowerFailed& failed) {
            waited_ += group_->waited();
            averaging_ += group_->averaging();
            for (TowerUse& use : use_) use.times.others += seconds_since(begin); // for the one that failed
            let_go(failed, report);
        }
    }
    if (!results.finite) {
        TowerGroup::Culprit culprit =
            group_ ? group_->find_culprit() : TowerGroup::Culprit{0, results.total_loss, "a gradient"};
        if (culprit.of_all) culprit.loss = results.total_loss;
        throw_diverged(culprit, report.learning_rate, examples);
    }
    ++step_;
    examples_ += options_.global_batch;

    if (group_)
        report.shares.assign(group_->shares().begin(), group_->shares().end());
    else
        report.shares = {options_.global_batch};
    std::ranges::transform(report.shares, held_, held_.begin(), std::ranges::max);
    report.loss = results.total_loss;
    report.cross_entropy = results.cross_entropy;
    if (!group_) {
        report.tower_losses = {results.total_loss};
        return;
    }
    const float decay = results.total_loss - results.cross_entropy;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        report.tower_losses.push_back(std::numeric_limits<float>::quiet_NaN());
        const unsigned share = report.shares[i];
        if (share == 0) continue;
        report.tower_losses[i] =
            towers_[i]->results().cross_entropy * float(options_.global_batch) / float(share) + decay;
        if (options_.quirks.last_tower_loss) report.loss = report.tower_losses[i];
    }
}

/// Gives several towers their shares, and each its part of the examples.
void Trainer::prepare(std::span<const unsigned> shares, const StepNumbers& numbers,
                      std::span<const Example> examples) {
    group_->take(shares);
    std::size_t first = 0;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        if (shares[i] > 0) towers_[i]->prepare(numbers, examples.subspan(first, shares[i]));
        first += shares[i];
    }
}

StepResults Trainer::attempt_step(const StepNumbers& numbers, std::span<const Example> examples) {
    if (!group_) {
        towers_[0]->prepare(numbers, examples);
        return step_alone();
    }
    prepare(shares(), numbers, examples);
    const StepResults results = group_->step(numbers);
    waited_ += group_->waited();
    averaging_ += group_->averaging();
    return results;
}

StepResults Trainer::step_alone() {
    Tower& tower = *towers_[0];
    const std::size_t only = 0;
    const Clock::time_point begin = Clock::now();
    {
        const Watchdog::Watch watch(watchdog_,
                                    (limit_ = patience_.limit(towers_, std::span(&only, 1))).seconds());
        tower.submit_from(0);
        const Interval waiting(waited_, options_.trace.get(), host_track_, "wait for tower_0");
        tower.wait(tower.parts().size() - 1);
    }
    patience_.observe(only, tower.share(), seconds_since(begin));
    return tower.results();
}

void Trainer::throw_diverged(const TowerGroup::Culprit& culprit, double learning_rate,
                             std::span<const Example> examples) const {
    if (group_ && !group_->exchanges() && !culprit.of_all) {
        const auto shares = group_->shares();
        examples = examples.subspan(
            std::accumulate(shares.begin(), shares.begin() + std::ptrdiff_t(culprit.tower), std::size_t(0)),
            shares[culprit.tower]);
    }
    std::string what = std::isfinite(culprit.loss) ? culprit.what : "the loss";
    if (!culprit.of_all)
        what += fmt::format(" of tower_{} ({})", culprit.tower, towers_[culprit.tower]->info().id);
    else if (std::isfinite(culprit.loss))
        what += ", each of which is finite,";
    else
        what += " of the whole batch, weight decay included,";
    throw Diverged(
        fmt::format("Model diverged with loss = {}: {} is infinite or NaN in step {}; try a smaller --lr",
                    std::isnan(culprit.loss) ? "NaN" : fmt::format("{:.2f}", culprit.loss), what, step_),
        {culprit.tower, learning_rate, {examples.begin(), examples.end()}});
}

} // namespace towers
