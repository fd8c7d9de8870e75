#include "engine/train/trainer.h"

#include "engine/inference/preview.h"

#include "backends/error.h"
#include "engine/clock.h"
#include "engine/ranks/courier.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/replica/ranked_towers.h"
#include "engine/tuning/tuning.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace towers {
namespace {

std::string host_process(const TrainerOptions& options) {
    const unsigned rank = options.ranks ? options.ranks->courier.rank() : 0;
    return rank == 0 ? "host" : fmt::format("host of rank {} ({})", rank, options.ranks->towers.hosts[rank]);
}

} // namespace

Trainer::Trainer(const Recipe& recipe, const TrainerOptions& options, const DataSource& data,
                 const std::shared_ptr<const DataSource>& tests)
    : recipe_(recipe), options_(options), records_(data.size()), layout_(layout_of(recipe_)),
      sampler_(make_sampler(recipe, data, options.seed, options.shuffle)), feed_(data),
      make_tables_(recipe, data, options.seed, options.distort),
      clock_(options.trace, host_process(options), "steps"),
      assignment_(options.shares, options.towers, options.global_batch, recipe.model.group(),
                  options.outlive_devices),
      to_probe_(!assignment_.probe().empty()), use_(options.towers.size()) {
    if (!options_.loss_scale) options_.loss_scale = first_loss_scale(options_.open.precision);
    check_data(recipe, data.info());
    check_labels(recipe, data);
    if (tests != nullptr) {
        check_data(recipe, tests->info());
        check_labels(recipe, *tests);
        test_labels_ = tests->label_sets();
        test_classes_ = tests->info().classes.size();
        tests_.emplace(*tests);
    }
    towers_ = open_towers(data, tests);
    if (follows()) return; // rank 0 says what comes
    if (!to_probe_) towers_->take(assignment_.to_take(0));
    assignment_.begin(seen());
    load({.state = initial_state(layout_, options_.seed)});
}

void Trainer::check_not_ahead(const char* verb) const {
    if (is_ahead()) throw std::logic_error(fmt::format("trainer: {} while a step is in flight", verb));
}

void Trainer::load(const TrainingState& state) {
    check_not_ahead("load");
    step_ = loaded_ = state.step;
    examples_ = state.examples;
    loss_scale_ = options_.loss_scale;
    if (loss_scale_ && state.loss_scale) loss_scale_ = state.loss_scale;
    if (loss_scale_) lowest_loss_scale_ = loss_scale_->scale;
    plateau_.reset();
    if (recipe_.schedule.kind == Schedule::Kind::plateau) plateau_ = state.plateau.value_or(Plateau{});
    towers_->load(state.state);
}

TrainingState Trainer::save() {
    check_not_ahead("save");
    TrainingState state{step_, examples_, std::vector<float>(layout_.bytes / sizeof(float)), loss_scale_,
                        plateau_};
    towers_->save(state.state);
    return state;
}

std::vector<float> Trainer::gradients() {
    check_not_ahead("gradients");
    std::vector<float> gradients(layout_.updated_bytes / sizeof(float));
    towers_->save_gradients(gradients);
    return gradients;
}

std::uint64_t Trainer::steps_until(double epochs) const {
    const double left = epochs * double(records_) - double(examples_);
    const double steps = std::ceil(std::max(0.0, left) / double(options_.global_batch));
    constexpr double endless = 1e18; // still fits a 64-bit number
    return step_ + std::uint64_t(std::min(steps, endless));
}

double Trainer::learning_rate(const Place& place) const {
    return options_.learning_rate *
           recipe_.schedule.factor_at({.step = place.step,
                                       .examples = place.examples,
                                       .records = records_,
                                       .tower_batch = options_.global_batch / unsigned(towers_->size()),
                                       .by_steps = options_.quirks.step_schedule,
                                       .plateau = plateau_ ? plateau_->factor : 1});
}

StepNumbers Trainer::numbers(const Place& place) const {
    StepNumbers numbers = numbers_of_update(recipe_, learning_rate(place), place.step + 1);
    if (!loss_scale_) return numbers;
    // A step that begins before the one before it has ended counts on that one to be good.
    numbers.loss_scale = (place.step > step_ ? after_good_step(*loss_scale_) : *loss_scale_).scale;
    return numbers;
}

/// Of the next step. Waits for its images.
Batch Trainer::batch() {
    const Place place{step_, examples_};
    if (!reader_) return resident_batch(place);
    const Interval waiting = clock_.time(host_use_.data, "wait for data");
    return reader_->at(examples_);
}

Batch Trainer::resident_batch(const Place& place) {
    auto& [first, examples, tables] = examples_of_step_[place.step % 2];
    if (first != place.examples) {
        examples.resize(options_.global_batch);
        sampler_.fill(place.examples, examples);
        feed_.bring(examples);
        tables = make_tables_(place.examples, examples);
        first = place.examples;
    }
    return Batch::all(place.examples, examples, {}, tables);
}

/// Of the step after the next one; nothing if its images have not been read yet.
std::optional<StepWork> Trainer::next_work() {
    const Batch batch = reader_ ? reader_->next() : resident_batch(next());
    if (batch.examples.empty()) return std::nullopt;
    return StepWork{numbers(next()), batch};
}

std::string Trainer::probe(const std::atomic<bool>* stop) {
    if (!std::exchange(to_probe_, false)) return "";
    const StepNumbers numbers = this->numbers({step_, examples_});
    const Batch batch = this->batch();
    std::string notice;
    for (bool over = false; !over;) {
        const std::vector<unsigned> tried = assignment_.probe();
        over = tried.empty() || (stop != nullptr && *stop);
        try {
            towers_->take(over ? assignment_.to_take(step_) : to_shares(tried));
            if (over) continue;
            towers_->dry_run(numbers, batch);
            assignment_.probed(seen());
        } catch (const TowerFailed& failed) {
            add_notice(notice, assignment_.drop(failed));
            over = false;
        }
    }
    add_notice(notice, assignment_.begin(seen()));
    return notice;
}

void Trainer::tune(const std::atomic<bool>* stop) {
    if (!options_.tuning) return;
    check_not_ahead("tune");
    const bool changed = towers_->tune([&] { return tune_own(stop); });
    if (const auto* const of_ranks = dynamic_cast<const RankedTowers*>(towers_.get()))
        for (const std::string& choices : of_ranks->choices()) options_.tuning->add(choices);
    if (!changed) return;
    try {
        towers_->record_again();
    } catch (const TowerFailed&) { // its next step tells
        if (!options_.outlive_devices) throw;
    }
}

/// Returns whether a choice has changed.
bool Trainer::tune_own(const std::atomic<bool>* stop) {
    bool changed = false;
    for (std::size_t i = 0; i < towers_->size(); ++i) {
        const Tower* const its = own_tower(i);
        if (its == nullptr || its->share() == 0 || !options_.tuning->concerns(its->info())) continue;
        if (!its->at_once().saves.empty()) continue; // other runs, with more memory, shall not do likewise
        const TrainingPlan planned = its->plan();
        try {
            changed = options_.tuning->tune(its->session().device(), planned.plans(), stop) || changed;
        } catch (const DeviceError&) { // its next step tells
            if (!options_.outlive_devices || options_.towers.size() == 1) throw;
        }
    }
    return changed;
}

/// Whether rank 0 decides for this rank.
bool Trainer::follows() const { return options_.ranks && options_.ranks->courier.rank() > 0; }

void Trainer::follow(const std::atomic<bool>* stop) {
    const Followed followed{.towers = dynamic_cast<TowerGroup&>(*towers_),
                            .batch =
                                [this](std::uint64_t examples) {
                                    examples_ = examples;
                                    return batch();
                                },
                            .tests = [this] { return test_examples(); },
                            .tune = [this, stop] { return options_.tuning && tune_own(stop); },
                            .choices = [this] { return options_.tuning ? options_.tuning->to_json() : ""; },
                            .trace = options_.trace.get()};
    towers::follow(options_.ranks->courier, options_.ranks->towers, followed);
}

/// Of the last step.
std::vector<SeenTower> Trainer::seen() const {
    std::vector<SeenTower> seen(towers_->size());
    const std::vector<unsigned> shares = towers_->shares();
    for (std::size_t i = 0; i < seen.size(); ++i)
        if (shares[i] > 0) seen[i] = {shares[i], towers_->times(i).work, towers_->at_once(i)};
    return seen;
}

SharesFrom Trainer::taken() const {
    if (to_probe_) return {step_, {}};
    SharesFrom taken{step_, towers_->shares()};
    for (std::size_t i = 0; i < taken.shares.size(); ++i) {
        const AtOnce at_once = towers_->at_once(i);
        taken.micro_batches.push_back(at_once.most > 0 ? at_once.micro_batches : 0);
    }
    return taken;
}

StepReport Trainer::step(bool another) {
    std::string notice = probe();
    if (towers_->is_ahead()) seconds_ += seconds_since(ended_); // in which this step went on
    const std::vector<unsigned> shares_of_step = assignment_.shares(step_);
    const std::optional<LossScale> scale_of_step = loss_scale_;
    const HostTimes before = towers_->host_times();
    const double data_before = host_use_.data;
    double seconds = 0;
    StepReport report{};
    {
        const std::string name = options_.trace ? fmt::format("step {}", step_) : "";
        if (options_.trace) options_.trace->begin_step(step_);
        const Interval taking = clock_.time(seconds, name);
        // In a trace, each step's work is its own.
        take_step(report, another && options_.trace == nullptr);
    }
    const double waited = towers_->host_times().waiting - before.waiting;
    const double for_data = host_use_.data - data_before;
    report.host_seconds = seconds - waited - for_data;
    seconds_ += seconds;
    ended_ = Clock::now();
    host_use_.averaging += towers_->host_times().averaging - before.averaging;
    host_use_.waiting += waited;
    for (std::size_t i = 0; i < use_.size(); ++i) {
        use_[i].share = report.shares[i];
        use_[i].examples += report.shares[i];
        use_[i].times += towers_->times(i);
    }
    // A step that was begun before its shares changed says nothing about the new ones.
    const bool repeated = !report.notice.empty() || report.shares != shares_of_step ||
                          (scale_of_step && report.loss_scale != scale_of_step->scale);
    add_notice(notice, report.notice);
    if (scale_of_step) add_notice(notice, tell_lower_loss_scale(scale_of_step->scale, *report.loss_scale));
    add_notice(notice, assignment_.observe(report.step, seen(), seconds - for_data, repeated, is_ahead()));
    if (reader_) add_notice(notice, data_watch_.observe(seconds, for_data, options_.global_batch));
    report.notice = notice;
    return report;
}

void Trainer::take_step(StepReport& report, bool another) {
    report.step = step_;
    report.examples = examples_;
    report.learning_rate = learning_rate({step_, examples_});
    StepWork work{numbers({step_, examples_}), batch()};
    // A step that is taken in another way does not begin before this one has ended.
    if (!towers_->is_ahead()) as_taken_ = assignment_.to_take(step_);
    another = another && assignment_.to_take(step_ + 1) == as_taken_;
    std::optional<StepWork> next = another ? next_work() : std::nullopt;
    StepResults results{};
    for (bool taken = false; !taken;) {
        const Clock::time_point begin = Clock::now();
        try {
            if (!towers_->is_ahead()) towers_->take(as_taken_);
            results = towers_->step(work, next ? &*next : nullptr);
            taken = !lower_loss_scale(results);
            if (taken) continue;
            for (std::size_t i = 0; i < use_.size(); ++i) use_[i].times += towers_->times(i);
            work.numbers = numbers({step_, examples_});
            if (next) next->numbers = numbers(this->next());
        } catch (const TowerFailed& failed) {
            for (TowerUse& use : use_) use.times.others += seconds_since(begin); // for the failed attempt
            add_notice(report.notice, assignment_.drop(failed));
            as_taken_ = assignment_.to_take(step_);
            next.reset();
        }
    }
    if (!results.finite) throw_diverged(towers_->find_culprit(results), report.learning_rate, work.batch);
    if (loss_scale_) {
        report.loss_scale = loss_scale_->scale;
        loss_scale_ = after_good_step(*loss_scale_);
    }
    ++step_;
    examples_ += options_.global_batch;
    SharesFrom taken = this->taken();
    report.shares = std::move(taken.shares);
    report.micro_batches = std::move(taken.micro_batches);
    report.loss = results.total_loss;
    report.cross_entropy = results.cross_entropy;
    report.tower_losses = towers_->losses(results);
    if (options_.quirks.last_tower_loss)
        for (const float loss : report.tower_losses)
            if (!std::isnan(loss)) report.loss = loss;
}

/// Whether the step is to be taken again with a smaller scale, which is set.
bool Trainer::lower_loss_scale(const StepResults& results) {
    if (!loss_scale_ || results.finite || !std::isfinite(results.total_loss)) return false;
    const std::optional<LossScale> lower = after_overflow(*loss_scale_);
    if (lower) loss_scale_ = lower;
    return lower.has_value();
}

/// A scale that grows again every few thousand steps overflows again too; only a new lowest one is told.
std::string Trainer::tell_lower_loss_scale(float before, float now) {
    if (now >= lowest_loss_scale_) return "";
    lowest_loss_scale_ = now;
    return fmt::format("gradients overflowed with a loss scale of {}: taken again with {}", before, now);
}

std::optional<TestReport> Trainer::test(bool raw, const std::atomic<bool>* stop, bool with_scores) {
    check_not_ahead("test");
    TestReport report{.step = step_,
                      .examples = examples_,
                      .classes = recipe_.model.classes,
                      .evaluation = {},
                      .metrics = {},
                      .notice = {}};
    double seconds = 0;
    const Interval testing = clock_.time(seconds, "test pass");
    const TestSpan span(options_.trace.get());
    const StateSection* const averages = raw ? nullptr : layout_.averages();
    const std::vector<float> state = save().state;
    const auto variables =
        part(std::span(state), averages != nullptr ? averages->range : layout_.all_variables());
    for (bool repeated = false;; repeated = true) {
        const auto pass = std::make_shared<TestPass>();
        pass->variables.assign(variables.begin(), variables.end());
        pass->examples = test_examples();
        pass->predictions =
            Predictions(pass->examples.size(), with_scores || test_labels_ ? recipe_.model.classes : 0);
        pass->stop = stop;
        try {
            if (repeated)
                towers_->take(assignment_.to_take(step_));
            else if (step_ == loaded_ && step_ > 0) // as the step before did, if its shares are recorded
                towers_->take(assignment_.to_take(step_ - 1));
            if (!towers_->test(pass)) {
                notice_ = report.notice;
                return {};
            }
            sum_up(*pass, report);
            return report;
        } catch (const TowerFailed& failed) {
            add_notice(report.notice, assignment_.drop(failed, "the test pass"));
        }
    }
}

std::string Trainer::judge(const TestReport& report, const Metric& metric) {
    check_not_ahead("judge");
    if (!plateau_) return "";
    const double before = learning_rate({step_, examples_});
    const auto found = report.metrics.find(metric.name);
    const auto value = found != report.metrics.end() ? std::optional(found->second) : std::nullopt;
    const Plateau now = after_pass(recipe_.schedule, *plateau_, report.step, value, metric.lower_is_better);
    const bool is_lower = now.factor < plateau_->factor;
    plateau_ = now;
    if (!is_lower) return "";
    return fmt::format(
        "the learning rate is {:g} from here on, before {:g}: more than {} test passes without a better {}",
        learning_rate({step_, examples_}), before, recipe_.schedule.patience, metric.text);
}

std::vector<Histogram> Trainer::summarize(const DataSource& data) {
    check_not_ahead("summarize");
    const TestSpan span(options_.trace.get()); // its kernels are not the step's
    const std::vector<unsigned> shares = towers_->shares();
    std::size_t first = 0; // of this process, if it has a share
    while (first + 1 < shares.size() && own_tower(first + 1) != nullptr && shares[first] == 0) ++first;
    const TowerFacts facts = this->facts(first);
    std::vector<Example> examples(std::clamp(shares[first], 1u, std::max(1u, facts.at_once.most)));
    make_sampler(recipe_, data, options_.seed, options_.shuffle)
        .fill(examples_ - options_.global_batch, examples);
    const auto pass = std::make_shared<SummaryPass>(plan_state_histograms(layout_), bring(data, examples));
    pass->examples = std::move(examples);
    NetworkSpec spec = network_spec(recipe_, layout_,
                                    {.stored = data.image_size(),
                                     .slots = pass->images.size(),
                                     .seed = options_.seed,
                                     .distort = options_.distort,
                                     .largest_allocation = facts.info.largest_allocation});
    pass->layers = [spec, model = std::make_shared<const Model>(recipe_.model.for_evaluation())](
                       unsigned batch) mutable {
        spec.model = model.get();
        spec.batch = batch;
        return plan_activation_histograms(spec);
    };
    towers_->summarize(pass);
    return std::move(pass->found);
}

void Trainer::sum_up(const TestPass& pass, TestReport& report) const {
    const Model& model = recipe_.model;
    report.evaluation = towers::sum_up(pass.predictions.each);
    const bool is_finite = std::isfinite(report.evaluation.loss_sum);
    if (test_labels_) {
        report.evaluation.correct = 0;
        std::optional<MultilabelReport> figures;
        if (is_finite) {
            figures.emplace(*test_labels_, scores_of(pass.predictions.scores, model),
                            std::vector<double>(test_classes_, usual_threshold));
            report.evaluation.correct = figures->exact;
        }
        report.metrics = values_of_metrics(
            {report.evaluation, nullptr, model.classes, true, figures ? &*figures : nullptr});
        return;
    }
    std::optional<ClassificationReport> figures;
    if (is_finite) {
        std::vector<std::uint32_t> labels;
        for (const Example& each : pass.examples) labels.push_back(each.label + model.label_offset);
        figures.emplace(labels, pass.predictions, model.classes, model.heads[0]);
    }
    report.metrics = values_of_metrics({report.evaluation, figures ? &*figures : nullptr, model.classes});
}

std::vector<Example> Trainer::test_examples() {
    std::vector<Example> examples(tests_->slots());
    for (std::size_t i = 0; i < examples.size(); ++i) examples[i].record = std::uint32_t(i);
    tests_->bring(examples);
    return examples;
}

void Trainer::throw_diverged(const Culprit& culprit, double learning_rate, const Batch& batch) const {
    std::string what = std::isfinite(culprit.loss) ? culprit.what : "the loss";
    if (!culprit.of_all)
        what += fmt::format(" of tower_{} ({})", culprit.tower, facts(culprit.tower).name);
    else if (std::isfinite(culprit.loss))
        what += ", each of which is finite,";
    else
        what += " of the whole batch, weight decay included,";
    throw Diverged(
        fmt::format("Model diverged with loss = {}: {} is infinite or NaN in step {}; try a smaller --lr{}",
                    std::isnan(culprit.loss) ? "NaN" : fmt::format("{:.2f}", culprit.loss), what, step_,
                    options_.open.precision == Precision::fp16
                        ? ", or --precision bf16: numbers above 65504 are infinite in fp16"
                        : ""),
        {culprit.tower, learning_rate, keep(batch.slice(culprit.first_example, culprit.examples))});
}

} // namespace towers
