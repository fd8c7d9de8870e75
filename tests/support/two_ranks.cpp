#include "tests/support/two_ranks.h"

#include "backends/worker.h"
#include "engine/reduce/host_reducer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

namespace towers::test {
namespace {

class TwoRanks final : public GradientReducer {
public:
    TwoRanks(OpenOptions host, const UpdateSpec& spec, const std::vector<StagedByTower>& towers,
             std::span<const ArenaRange> buckets)
        : buckets_(buckets.size()), ranks_{Rank(*this, 0, host, spec, towers, buckets),
                                           Rank(*this, 1, host, spec, towers, buckets)} {}

    void begin(const StepNumbers& numbers, std::span<const std::size_t> towers) override {
        for (Milestones* each : {&given_, &lists_, &complete_, &exchanged_}) each->restart();
        for (Rank& rank : ranks_) {
            rank.done = 0;
            rank.reducer.begin(numbers, towers);
            rank.worker.start(rank.task);
        }
    }
    void give(std::size_t buckets) override { given_.advance(buckets); }
    const Milestones& complete() const override { return complete_; }
    void give_lists(std::size_t exchange, std::span<const Exchange* const>) override {
        lists_.advance(exchange + 1);
    }
    const Milestones& exchanged() const override { return exchanged_; }
    void merge(std::size_t exchange, std::span<const Exchange* const> lists,
               const Exchange& target) const override {
        ranks_[0].reducer.merge(exchange, lists, target);
    }
    void fail() override {
        for (Milestones* each : {&given_, &complete_, &exchanged_}) each->fail();
    }

    StepVerdict end(const StepVote& vote) override {
        if (!vote.counts) fail();
        for (Rank& rank : ranks_) rank.worker.get();
        const std::span<HostReducer::Sum> first = ranks_[0].reducer.sums(), second = ranks_[1].reducer.sums();
        for (std::size_t block = 0; block < first.size(); ++block) // both learn of all blocks
            (block % 2 == 0 ? second : first)[block] = (block % 2 == 0 ? first : second)[block];
        ranks_[1].reducer.end(vote);
        return ranks_[0].reducer.end(vote);
    }

    void hand_over(std::size_t tower) const override {
        for (const Rank& rank : ranks_) rank.reducer.hand_over(tower);
    }
    void load(std::span<const float> state) override {
        for (Rank& rank : ranks_) rank.reducer.load(state);
    }
    void save(std::span<float> state) override {
        for (Rank& rank : ranks_) rank.reducer.save(state);
    }
    void save_gradients(std::span<float> gradients) override {
        for (Rank& rank : ranks_) rank.reducer.save_gradients(gradients);
    }

private:
    struct Rank {
        Rank(TwoRanks& both, std::size_t index, OpenOptions host, const UpdateSpec& spec,
             const std::vector<StagedByTower>& towers, std::span<const ArenaRange> buckets)
            : reducer(alone(host), Milestones::Spin::zero(), spec, towers, buckets, {index, 2}),
              task([&both, index] { both.work(index); }) {}
        /// With one thread, give() returns when the reducer has done its work.
        static OpenOptions alone(OpenOptions host) {
            host.threads = 1;
            return host;
        }

        HostReducer reducer;
        std::minstd_rand random{std::random_device()()};
        std::atomic<std::size_t> done = 0; ///< buckets
        std::function<void()> task;
        Worker worker; // last: it uses the others
    };

    void work(std::size_t index) {
        Rank& rank = ranks_[index];
        for (std::size_t have = 0; have < buckets_ && !given_.has_failed();) {
            std::this_thread::sleep_for(std::chrono::microseconds(rank.random() % 200));
            if (index == 1) exchanged_.advance(lists_.count());
            const std::size_t given = given_.count();
            if (given == have) continue;
            rank.reducer.give(have += 1 + rank.random() % (given - have));
            rank.done = rank.reducer.complete().count();
            complete_.advance(std::min(ranks_[0].done.load(), ranks_[1].done.load()));
        }
    }

    std::size_t buckets_;
    Milestones given_, lists_, complete_, exchanged_;
    std::array<Rank, 2> ranks_; // last: their threads use the others
};

} // namespace

std::unique_ptr<GradientReducer> make_two_ranks(const OpenOptions& host, Milestones::Spin,
                                                const UpdateSpec& spec, std::vector<StagedByTower> towers,
                                                std::span<const ArenaRange> buckets) {
    return std::make_unique<TwoRanks>(host, spec, towers, buckets);
}

MakeReducer reducer_of_this_run() {
    const char* const asked = std::getenv("TOWERS_TEST_REDUCER");
    return asked != nullptr && std::string(asked) == "two_ranks" ? make_two_ranks : MakeReducer();
}

} // namespace towers::test
