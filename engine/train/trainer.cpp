#include "engine/train/trainer.h"

#include "engine/error.h"
#include "engine/towers/shares.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace towers {
namespace {

/// Large enough to be worth starting a copy, small enough that local3's gradient, the bulk of the tutorial's,
/// leaves while the convolutions still run.
constexpr std::size_t bucket_bytes = std::size_t(1) << 20;

/// Adds its lifetime to a sum of seconds.
class Stopwatch {
public:
    explicit Stopwatch(double& sum) : sum_(sum) {}
    ~Stopwatch() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

private:
    using Clock = std::chrono::steady_clock;
    double& sum_;
    Clock::time_point begin_ = Clock::now();
};

} // namespace

Trainer::Trainer(const Recipe& recipe, const TrainerOptions& options, const Dataset& data)
    : recipe_(recipe), options_(options), records_(data.size()), layout_(layout_of(recipe_)),
      sampler_(std::uint32_t(data.size()), options.seed, options.shuffle), progress_(options.towers.size()) {
    check_data(recipe, data);
    const unsigned count = unsigned(options.towers.size());
    const std::vector<unsigned> shares =
        share_out(options.global_batch, count, options.shares, recipe.model.group());
    const UpdateSpec update{.layout = &layout_,
                            .optimizer = recipe_.optimizer.get(),
                            .average_first = options.quirks.unordered_average};
    for (unsigned i = 0; i < count; ++i) {
        auto device = options.open_device(options.towers[i], options.open);
        const NetworkSpec spec{.model = &recipe_.model,
                               .layout = &layout_,
                               .pipeline = &recipe_.pipeline,
                               .batch = shares[i],
                               .global_batch = options.global_batch,
                               .stored = data.image_size(),
                               .records = data.size(),
                               .seed = options.seed,
                               .distort = options.distort};
        TrainingPlan plan =
            count == 1 ? plan_single_step(spec, update) : plan_shared_step(spec, bucket_bytes);
        towers_.push_back(std::make_unique<Tower>(std::move(device), data, std::move(plan), shares[i]));
    }
    if (count > 1) {
        std::vector<std::span<float>> staged;
        for (const auto& tower : towers_) {
            staged.push_back(tower->staged_gradients());
            workers_.push_back(std::make_unique<Worker>());
            auto& exchanges = exchanges_.emplace_back();
            for (const Tower::Part& part : tower->parts())
                for (const Exchange& exchange : part.exchanges) exchanges.push_back(&exchange);
        }
        stage_.emplace(open_device("cpu", options.open), update, staged, towers_[0]->buckets());
    }
    load(initial_state());
}

TrainingState Trainer::initial_state() const {
    return {.state = towers::initial_state(layout_, options_.seed)};
}

void Trainer::load(const TrainingState& state) {
    step_ = state.step;
    examples_ = state.examples;
    if (stage_)
        std::ranges::copy(state.state, stage_->state().begin());
    else
        towers_[0]->load(state.state);
}

TrainingState Trainer::save() {
    TrainingState state{step_, examples_, std::vector<float>(layout_.bytes / sizeof(float))};
    if (stage_)
        std::ranges::copy(stage_->state(), state.state.begin());
    else
        towers_[0]->save(state.state);
    return state;
}

std::vector<float> Trainer::gradients() {
    std::vector<float> gradients(layout_.variable_bytes / sizeof(float));
    if (stage_)
        std::ranges::copy(stage_->gradients(), gradients.begin());
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

StepReport Trainer::step() {
    double seconds = waited_ = 0;
    StepReport report{};
    {
        const Stopwatch watch(seconds);
        take_step(report);
    }
    report.host_seconds = seconds - waited_;
    return report;
}

void Trainer::take_step(StepReport& report) {
    report.step = step_;
    report.examples = examples_;
    report.learning_rate =
        options_.learning_rate *
        recipe_.schedule.factor_at({.step = step_,
                                    .examples = examples_,
                                    .records = records_,
                                    .batch = options_.global_batch,
                                    .tower_batch = options_.global_batch / unsigned(towers_.size()),
                                    .by_steps = options_.quirks.step_schedule});
    StepNumbers numbers{float(report.learning_rate), float(average_decay_at(recipe_, step_ + 1))};
    recipe_.optimizer->prepare(numbers, step_ + 1);

    std::vector<Example> examples(options_.global_batch);
    sampler_.fill(examples_, examples);
    std::size_t first = 0;
    for (const auto& tower : towers_) {
        tower->prepare(numbers, std::span(examples).subspan(first, tower->share()));
        first += tower->share();
    }
    const StepResults results = stage_ ? step_shared(numbers) : step_alone();
    ++step_;
    examples_ += options_.global_batch;

    report.loss = results.total_loss;
    report.cross_entropy = results.cross_entropy;
    if (!stage_) {
        report.tower_losses = {results.total_loss};
        return;
    }
    const float decay = results.total_loss - results.cross_entropy;
    for (const auto& tower : towers_)
        report.tower_losses.push_back(
            tower->results().cross_entropy * float(options_.global_batch) / float(tower->share()) + decay);
    if (options_.quirks.last_tower_loss) report.loss = report.tower_losses.back();
}

StepResults Trainer::step_alone() {
    Tower& tower = *towers_[0];
    tower.submit_from(0);
    {
        const Stopwatch watch(waited_);
        tower.wait(tower.parts().size() - 1);
    }
    const StepResults results = tower.results();
    if (!results.finite) throw_diverged(0, results.total_loss, "a gradient");
    return results;
}

void Trainer::run_tower(std::size_t index) {
    Tower& tower = *towers_[index];
    TowerProgress& progress = progress_[index];
    try {
        std::ranges::copy(part(stage_->state(), layout_.trained()), tower.staged_parameters().begin());
        tower.submit_from(0);
        for (std::size_t i = 0; i < tower.parts().size(); ++i) {
            tower.wait(i);
            progress.buckets.advance(tower.parts()[i].buckets);
            if (tower.parts()[i].exchanges.empty()) continue;
            if (!exchange(index, i)) return progress.fail();
            tower.submit_from(i + 1);
        }
    } catch (...) {
        progress.fail();
        throw;
    }
}

/// Merges what all towers give at the exchanges behind a tower's part. False: a tower has failed.
bool Trainer::exchange(std::size_t index, std::size_t at) {
    const std::vector<Exchange>& own = towers_[index]->parts()[at].exchanges;
    const std::size_t first = progress_[index].exchanges.count();
    progress_[index].exchanges.advance(first + own.size());
    for (TowerProgress& progress : progress_)
        if (!progress.exchanges.wait_for(first + own.size())) return false;
    // Another tower may have cut its step elsewhere, but all have the same exchanges in the same order.
    std::vector<const Exchange*> given(towers_.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
        std::ranges::transform(exchanges_, given.begin(),
                               [&](const auto& of_tower) { return of_tower[first + k]; });
        merge(given, own[k]);
    }
    return true;
}

StepResults Trainer::step_shared(const StepNumbers& numbers) {
    for (TowerProgress& progress : progress_) progress.restart();
    std::vector<std::future<void>> done;
    try {
        for (std::size_t i = 0; i < towers_.size(); ++i)
            done.push_back(workers_[i]->run([this, i] { run_tower(i); }));
    } catch (...) { // else those that run would wait for those that do not
        for (std::size_t i = done.size(); i < towers_.size(); ++i) progress_[i].fail();
        for (std::future<void>& each : done) each.wait();
        throw;
    }
    bool all_well = true;
    for (std::size_t bucket = 0; all_well && bucket < towers_[0]->buckets().size(); ++bucket) {
        for (TowerProgress& progress : progress_) {
            const Stopwatch watch(waited_);
            all_well = progress.buckets.wait_for(bucket + 1) && all_well;
        }
        if (all_well) stage_->average(bucket);
    }
    {
        const Stopwatch watch(waited_);
        for (std::future<void>& each : done) each.wait(); // for all, before the first exception leaves
    }
    for (std::future<void>& each : done) each.get();
    std::vector<float> cross_entropies;
    for (const auto& tower : towers_) cross_entropies.push_back(tower->results().cross_entropy);
    const StepResults results = stage_->update(numbers, cross_entropies);
    if (!results.finite) blame_tower();
    return results;
}

/// Finds the tower whose loss or gradients made the sum infinite or NaN.
void Trainer::blame_tower() {
    const auto all_finite = [](std::span<const float> values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    // An exchange hands what is not finite to all: the tower that gave it first has made it.
    for (std::size_t k = 0; k < exchanges_[0].size(); ++k)
        for (std::size_t i = 0; i < towers_.size(); ++i)
            if (!std::ranges::all_of(exchanges_[i][k]->given, all_finite))
                throw_diverged(i, towers_[i]->results().cross_entropy, "a batch norm's sum");
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        const float loss = towers_[i]->results().cross_entropy;
        if (!std::isfinite(loss)) throw_diverged(i, loss, "the loss");
        for (const VariableSlot& slot : layout_.variables) {
            const auto gradients = towers_[i]->staged_gradients().subspan(slot.range.offset / sizeof(float),
                                                                          slot.variable.elements());
            if (!all_finite(gradients)) throw_diverged(i, loss, "the gradient of " + slot.variable.name);
        }
    }
    throw_diverged(0, towers_[0]->results().cross_entropy, "the sum of the towers' gradients");
}

void Trainer::throw_diverged(std::size_t tower, float loss, const std::string& what) const {
    throw Diverged(fmt::format("Model diverged with loss = {}: {} of tower {} ({}) is infinite or NaN in "
                               "step {}; try a smaller --lr",
                               std::isnan(loss) ? "NaN" : fmt::format("{:.2f}", loss),
                               std::isfinite(loss) ? what : "the loss", tower, towers_[tower]->info().id,
                               step_));
}

} // namespace towers
