#include "tests/support/two_ranks.h"

#include "backends/worker.h"
#include "engine/reduce/ranked_reducer.h"
#include "tests/support/thread_transport.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <thread>

namespace towers::test {
namespace {

class TwoRanks final : public GradientReducer {
public:
    TwoRanks(Wire wire, const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
             const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets)
        : transports_(connected_transports(2)), first_towers_(std::max<std::size_t>(1, towers.size() - 1)),
          couriers_{Courier(std::move(transports_[0]), {}), Courier(std::move(transports_[1]), {})},
          first_(couriers_[0], {.wire = wire, .hosts = {}}, host, spin, spec,
                 {towers.begin(), towers.begin() + long(first_towers_)}, buckets),
          second_(couriers_[1], {.wire = wire, .hosts = {}}, host, spin, spec,
                  {towers.begin() + long(first_towers_), towers.end()}, buckets) {}
    ~TwoRanks() override {
        for (Courier& courier : couriers_) courier.close(); // each waits for the other's farewell
    }

    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers) override {
        for (Milestones* each : {&complete_, &exchanged_}) each->restart();
        const auto mine = std::ranges::lower_bound(towers, first_towers_) - towers.begin();
        first_.begin(numbers, towers.first(std::size_t(mine)));
        const std::vector<std::size_t> rest(towers.size() - std::size_t(mine), 0); // its only tower
        second_.begin(numbers, rest);
        listed_ = std::size_t(mine);
        second_lists_ = !rest.empty();
        ends_ = false;
        watcher_.start(watch_);
    }
    void give(std::size_t buckets) override {
        first_.give(buckets);
        second_.give(buckets);
    }
    const Milestones& complete() const override { return complete_; }
    void give_lists(std::size_t exchange, std::span<const Exchange* const> lists) override {
        first_.give_lists(exchange, lists.first(listed_));
        second_.give_lists(exchange, lists.subspan(listed_));
    }
    const Milestones& exchanged() const override { return exchanged_; }
    void merge(std::size_t exchange, std::span<const Exchange* const> lists,
               const Exchange& target) const override {
        const bool is_first =
            std::ranges::find(lists.first(listed_), &target) != lists.begin() + long(listed_);
        if (is_first) return first_.merge(exchange, lists.first(listed_), target);
        second_.merge(exchange, lists.subspan(listed_), target);
    }
    void fail() override {
        first_.fail(); // tells the other
        for (Milestones* each : {&complete_, &exchanged_}) each->fail();
    }

    StepVerdict end(const StepVote& vote) override {
        StepVote others{.counts = vote.counts};
        if (!vote.counts) fail();
        const std::function<void()> end_second = [this, &others] { second_.end(others); };
        ender_.start(end_second);
        StepVerdict verdict = first_.end(vote);
        ender_.get();
        ends_ = true;
        watcher_.get();
        return verdict;
    }

    void hand_over(std::size_t tower) const override {
        if (tower < first_towers_) return first_.hand_over(tower);
        second_.hand_over(0);
    }
    void load(std::span<const float> state) override {
        first_.load(state);
        second_.load({});
    }
    void save(std::span<float> state) override {
        second_.save({});
        first_.save(state);
    }
    void save_gradients(std::span<float> gradients) override {
        second_.save_gradients({});
        first_.save_gradients(gradients);
    }

private:
    /// Counts what is complete on both.
    void watch() {
        while (!ends_) {
            if (first_.complete().has_failed() || second_.complete().has_failed()) {
                complete_.fail();
                exchanged_.fail();
                return;
            }
            complete_.advance(std::min(first_.complete().count(), second_.complete().count()));
            std::size_t exchanged = SIZE_MAX; // of the ranks that have towers in the step
            if (listed_ > 0) exchanged = first_.exchanged().count();
            if (second_lists_) exchanged = std::min(exchanged, second_.exchanged().count());
            exchanged_.advance(exchanged);
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    }

    std::vector<std::unique_ptr<Transport>> transports_;
    const std::size_t first_towers_;
    std::array<Courier, 2> couriers_;
    Milestones complete_, exchanged_;
    RankedReducer first_, second_;
    std::size_t listed_ = 0; ///< the first rank's towers in the step
    bool second_lists_ = false;
    std::atomic<bool> ends_ = false;
    std::function<void()> watch_ = [this] { watch(); };
    Worker watcher_, ender_; // last: they use the others
};

} // namespace

MakeReducer two_ranks(Wire wire) {
    return [wire](const OpenOptions& host, Milestones::Spin spin, const UpdateSpec& spec,
                  const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets) {
        return std::make_unique<TwoRanks>(wire, host, spin, spec, towers, buckets);
    };
}

MakeReducer reducer_of_this_run() {
    const char* const asked = std::getenv("TOWERS_TEST_REDUCER");
    return asked != nullptr && std::string(asked) == "two_ranks" ? two_ranks() : MakeReducer();
}

} // namespace towers::test
