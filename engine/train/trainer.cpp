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

constexpr std::size_t failed = SIZE_MAX; // in place of a count of delivered buckets

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
    : recipe_(recipe), options_(options), records_(data.size()), layout_(layout_parameters(recipe_.model)),
      sampler_(std::uint32_t(data.size()), options.seed, options.shuffle), delivered_(options.towers.size()) {
    if (data.classes.size() != recipe.model.classes())
        throw InputError(
            fmt::format("the data set {} has {} classes, but recipe {} needs {}; choose other --data",
                        data.name, data.classes.size(), recipe.name, recipe.model.classes()));
    const unsigned count = unsigned(options.towers.size());
    const std::vector<unsigned> shares = share_out(options.global_batch, count, options.shares);
    for (unsigned i = 0; i < count; ++i) {
        auto device = options.open_device(options.towers[i], options.open);
        const NetworkSpec spec{.model = &recipe_.model,
                               .layout = &layout_,
                               .batch = shares[i],
                               .image_height = data.height,
                               .image_width = data.width,
                               .records = data.size(),
                               .seed = options.seed,
                               .distort = options.distort,
                               .average_first = options.quirks.unordered_average};
        TrainingPlan plan = count == 1 ? plan_single_step(spec) : plan_shared_step(spec, bucket_bytes);
        towers_.push_back(std::make_unique<Tower>(std::move(device), data, std::move(plan), shares[i]));
    }
    if (count > 1) {
        std::vector<std::span<float>> staged;
        std::vector<float> weights;
        for (const auto& tower : towers_) {
            staged.push_back(tower->staged_gradients());
            weights.push_back(float(tower->share()) / float(options.global_batch));
            workers_.push_back(std::make_unique<Worker>());
        }
        stage_.emplace(open_device("cpu", options.open), layout_, staged, weights, towers_[0]->buckets(),
                       options.quirks.unordered_average);
    }
    load(initial_state());
}

TrainingState Trainer::initial_state() const {
    TrainingState state;
    state.parameters = initial_parameters(layout_, options_.seed);
    state.averages = state.parameters;
    return state;
}

void Trainer::load(const TrainingState& state) {
    step_ = state.step;
    examples_ = state.examples;
    if (stage_) {
        std::copy(state.parameters.begin(), state.parameters.end(), stage_->parameters().begin());
        std::copy(state.averages.begin(), state.averages.end(), stage_->averages().begin());
    } else {
        towers_[0]->load(state.parameters, state.averages);
    }
}

TrainingState Trainer::save() {
    TrainingState state{step_, examples_, std::vector<float>(layout_.bytes / sizeof(float)), {}};
    state.averages.resize(state.parameters.size());
    if (stage_) {
        std::copy(stage_->parameters().begin(), stage_->parameters().end(), state.parameters.begin());
        std::copy(stage_->averages().begin(), stage_->averages().end(), state.averages.begin());
    } else {
        towers_[0]->save(state.parameters, state.averages);
    }
    return state;
}

std::vector<float> Trainer::gradients() {
    std::vector<float> gradients(layout_.bytes / sizeof(float));
    if (stage_)
        std::copy(stage_->gradients().begin(), stage_->gradients().end(), gradients.begin());
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
        learning_rate_at(recipe_, options_.learning_rate, step_, examples_, records_,
                         options_.global_batch / unsigned(towers_.size()), options_.quirks.step_schedule);
    const StepNumbers numbers{float(report.learning_rate), float(average_decay_at(recipe_, step_ + 1))};

    std::vector<Example> examples(options_.global_batch);
    sampler_.fill(examples_, examples);
    std::size_t first = 0;
    for (const auto& tower : towers_) {
        tower->prepare(numbers, std::span(examples).subspan(first, tower->share()));
        first += tower->share();
    }
    if (stage_)
        step_shared(numbers);
    else
        step_alone();
    ++step_;
    examples_ += options_.global_batch;

    double loss = 0, cross_entropy = 0;
    for (const auto& tower : towers_) {
        const StepResults results = tower->results();
        const double weight = double(tower->share()) / options_.global_batch;
        loss += weight * results.total_loss;
        cross_entropy += weight * results.cross_entropy;
        report.tower_losses.push_back(results.total_loss);
    }
    report.loss = options_.quirks.last_tower_loss ? report.tower_losses.back() : float(loss);
    report.cross_entropy = float(cross_entropy);
}

void Trainer::step_alone() {
    Tower& tower = *towers_[0];
    tower.start();
    {
        const Stopwatch watch(waited_);
        tower.wait(tower.recordings() - 1);
    }
    const StepResults results = tower.results();
    if (!results.finite) throw_diverged(0, results.total_loss, "a gradient");
}

void Trainer::run_tower(std::size_t index) {
    Tower& tower = *towers_[index];
    std::atomic<std::size_t>& delivered = delivered_[index];
    try {
        std::copy(stage_->parameters().begin(), stage_->parameters().end(),
                  tower.staged_parameters().begin());
        tower.start();
        for (std::size_t i = 0; i < tower.recordings(); ++i) {
            tower.wait(i);
            delivered.store(i + 1);
            delivered.notify_all();
        }
    } catch (...) {
        delivered.store(failed);
        delivered.notify_all();
        throw;
    }
}

void Trainer::step_shared(const StepNumbers& numbers) {
    std::vector<std::future<void>> done;
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        delivered_[i].store(0);
        done.push_back(workers_[i]->run([this, i] { run_tower(i); }));
    }
    bool all_well = true;
    for (std::size_t bucket = 0; all_well && bucket < towers_[0]->buckets().size(); ++bucket) {
        for (std::atomic<std::size_t>& delivered : delivered_) {
            const Stopwatch watch(waited_);
            std::size_t count;
            while ((count = delivered.load()) <= bucket) delivered.wait(count);
            all_well = all_well && count != failed;
        }
        if (all_well) stage_->average(bucket);
    }
    {
        const Stopwatch watch(waited_);
        for (std::future<void>& each : done) each.wait(); // for all, before the first exception leaves
    }
    for (std::future<void>& each : done) each.get();
    if (stage_->nonfinite() != 0) check_towers();
    for (std::size_t i = 0; i < towers_.size(); ++i)
        if (const StepResults results = towers_[i]->results(); !results.finite)
            throw_diverged(i, results.total_loss, "the loss");
    stage_->update(numbers);
}

/// Finds the tower whose gradients made the mean infinite or NaN.
void Trainer::check_towers() {
    for (std::size_t i = 0; i < towers_.size(); ++i)
        for (const ParameterSlot& slot : layout_.slots) {
            const auto gradients = towers_[i]->staged_gradients().subspan(slot.range.offset / sizeof(float),
                                                                          slot.variable.elements());
            if (!std::all_of(gradients.begin(), gradients.end(), [](float g) { return std::isfinite(g); }))
                throw_diverged(i, towers_[i]->results().total_loss, "the gradient of " + slot.variable.name);
        }
    throw_diverged(0, towers_[0]->results().total_loss, "the sum of the towers' gradients");
}

void Trainer::throw_diverged(std::size_t tower, float loss, const std::string& what) const {
    throw Diverged(fmt::format("Model diverged with loss = {}: {} of tower {} ({}) is infinite or NaN in "
                               "step {}; try a smaller --lr",
                               std::isnan(loss) ? "NaN" : fmt::format("{:.2f}", loss),
                               std::isfinite(loss) ? what : "the loss", tower, towers_[tower]->info().id,
                               step_));
}

} // namespace towers
