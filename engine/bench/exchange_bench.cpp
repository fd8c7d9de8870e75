#include "engine/bench/exchange_bench.h"

#include "backends/backend.h"
#include "engine/clock.h"
#include "engine/recipes/recipe_plan.h"

#include <algorithm>
#include <array>

namespace towers {

ExchangeBench::ExchangeBench(const Recipe& recipe, World& world, unsigned threads)
    : layout_(layout_of(recipe)), buckets_(make_buckets(layout_, bucket_bytes(layout_))),
      memory_(open_host_device({.threads = 1})),
      gradients_(memory_->allocate(layout_.variable_bytes, Memory::staging)),
      parameters_(memory_->allocate(layout_.trained_bytes, Memory::staging)) {
    std::ranges::fill(gradients_.host<float>(), 1e-3f);
    reducer_ = std::make_unique<RankedReducer>(
        world.courier(), RankLinks{.hosts = world.hosts()},
        OpenOptions{.threads = reducer_threads(threads, layout_)}, Milestones::Spin::zero(),
        UpdateSpec{.layout = &layout_, .optimizer = recipe.optimizer.get()},
        std::vector<StagedByTower>{{gradients_.host<float>(), parameters_.host<float>()}}, buckets_);
}

void ExchangeBench::repeat(unsigned exchanges) {
    constexpr std::array<std::size_t, 1> towers{0};
    constexpr std::array<float, 1> losses{};
    const Clock::time_point begin = Clock::now();
    for (unsigned i = 0; i < exchanges; ++i) {
        reducer_->begin({}, towers); // a learning rate of 0 keeps the state finite
        reducer_->give(buckets_.size());
        reducer_->complete().wait_for(buckets_.size());
        reducer_->end({.cross_entropies = losses});
    }
    us_.push_back(seconds_since(begin) / exchanges * 1e6);
}

} // namespace towers
