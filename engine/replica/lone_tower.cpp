#include "engine/clock.h"
#include "engine/liveness/patience.h"
#include "engine/liveness/watchdog.h"
#include "engine/replica/tower_set.h"

#include <functional>
#include <optional>
#include <utility>

namespace towers {
namespace {

class LoneTower final : public TowerSet {
public:
    LoneTower(std::unique_ptr<Tower> tower, const TowerSetOptions& options)
        : tower_(std::move(tower)), next_batch_(options.next_batch), caller_(options.caller),
          patience_(options.patience) {
        // A cpu device has no driver that could hang.
        if (options.give_up && tower_->info().kind != DeviceKind::cpu)
            watchdog_.emplace(patience_, [this, give_up = options.give_up] {
                DeviceError error(no_answer(tower_->info(), limit_, patience_.stop_requested()));
                error.device = tower_->info().id;
                give_up(error);
            });
    }

    std::size_t size() const override { return 1; }
    TowerFacts facts(std::size_t) const override { return facts_of(*tower_); }
    AtOnce at_once(std::size_t) const override { return tower_->at_once(); }
    const Tower* own(std::size_t) const override { return tower_.get(); }

    void take(std::span<const Share> shares) override {
        if (shares[0] == tower_->taken()) return;
        step_time_.renew();
        tower_->take(shares[0]);
    }
    std::vector<unsigned> shares() const override { return {tower_->share()}; }
    void record_again() override {
        step_time_.renew();
        tower_->record_again();
    }

    StepResults step(const StepWork& work, const StepWork* next) override {
        const bool begun = std::exchange(ahead_, false);
        if (!begun) prepare(work);
        const Clock::time_point begin = Clock::now();
        const Clock::time_point working_since = begun ? ended_ : begin;
        StepResults results{};
        {
            const Watchdog::Watch watched =
                watch(patience_.limit(step_time_.expect(tower_->share(), tower_->flops(), tower_->info())));
            if (!begun) tower_->submit_from(0);
            if (next != nullptr && tower_->can_go_ahead()) {
                go_ahead(*next);
            } else if (tower_->can_prefetch()) {
                tower_->prefetch(next_batch_());
                tower_->upload_prefetched();
            }
            results = wait();
        }
        ended_ = Clock::now();
        times_.work = times_.compute = seconds_between(working_since, ended_);
        step_time_.observe(tower_->share(), seconds_between(begin, ended_));
        return results;
    }
    bool is_ahead() const override { return ahead_; }
    void dry_run(const StepNumbers&, const Batch&) override {}
    bool test(const std::shared_ptr<TestPass>& pass) override {
        const auto examples = unsigned(pass->examples.size());
        const Watchdog::Watch watched = watch(patience_.limit(
            step_time_.expect_test(examples, tower_->share(), tower_->flops(), tower_->info())));
        const auto reads = [this](bool begins) {
            if (watchdog_) watchdog_->suspend(begins);
        };
        return tower_->test(pass->variables, pass->examples, pass->predictions.all(),
                            {[&pass] { return pass->is_over(); }, reads});
    }

    void summarize(const std::shared_ptr<SummaryPass>& pass) override {
        const auto examples = unsigned(pass->examples.size());
        const Watchdog::Watch watched = watch(patience_.limit(
            step_time_.expect_test(examples, tower_->share(), tower_->flops(), tower_->info())));
        summarize_state(tower_->session(), *pass);
        summarize_layers(tower_->session(), tower_->at_once().most, *pass);
    }

    const TowerTimes& times(std::size_t) const override { return times_; }
    const HostTimes& host_times() const override { return host_times_; }
    std::vector<float> losses(const StepResults& results) const override { return {results.total_loss}; }
    Culprit find_culprit(const StepResults& results) const override {
        return {.tower = 0, .loss = results.total_loss, .what = "a gradient", .examples = tower_->share()};
    }

    void load(std::span<const float> state) override {
        const Watchdog::Watch watched = watch(patience_.limit_of_copies());
        tower_->session().upload(Arena::state, state);
    }
    void save(std::span<float> state) override {
        const Watchdog::Watch watched = watch(patience_.limit_of_copies());
        tower_->session().download(Arena::state, state);
    }
    void save_gradients(std::span<float> gradients) override {
        tower_->session().download(Arena::gradients, gradients);
    }

private:
    void prepare(const StepWork& work) {
        tower_->prepare(work.numbers, work.batch);
        tower_->stage(work.batch);
    }
    /// Begins a step before the one before it has ended.
    void go_ahead(StepWork work) {
        work.numbers.follows = true;
        prepare(work);
        tower_->submit_from(0);
        ahead_ = true;
    }
    /// The results of the step, and not of one that has been begun after it. That one changes nothing if
    /// these are not finite, and is forgotten when it has ended.
    StepResults wait() {
        const Interval waiting = caller_.time(host_times_.waiting, "wait for tower_0");
        if (!ahead_) return tower_->finish();
        const StepResults results = tower_->finish_earlier();
        if (!results.finite) {
            tower_->finish();
            ahead_ = false;
        }
        return results;
    }
    /// The tower's work during the result's lifetime must end within the limit.
    Watchdog::Watch watch(const TimeLimit& limit) {
        limit_ = limit;
        return {watchdog_, limit};
    }

    std::unique_ptr<Tower> tower_;
    std::function<Batch()> next_batch_;
    bool ahead_ = false;      ///< the next step has been submitted
    Clock::time_point ended_; ///< the last step
    PhaseClock caller_;
    TowerTimes times_;
    HostTimes host_times_;
    Patience patience_;
    StepTime step_time_;
    TimeLimit limit_;                  ///< of the tower's current work
    std::optional<Watchdog> watchdog_; ///< if the tower can hang; last, because its thread uses the others
};

} // namespace

std::unique_ptr<TowerSet> make_lone_tower(std::unique_ptr<Tower> tower, const TowerSetOptions& options) {
    return std::make_unique<LoneTower>(std::move(tower), options);
}

} // namespace towers
