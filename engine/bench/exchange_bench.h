// Times the exchange between ranks with nothing to hide behind.
#pragma once

#include "engine/ranks/courier.h"
#include "engine/recipes/recipe.h"
#include "engine/ranks/world.h"
#include "engine/reduce/ranked_reducer.h"

#include <memory>
#include <vector>

namespace towers {

/// All ranks make one at the same time, when no other reducer of theirs is at work, and call the same
/// functions.
class ExchangeBench {
public:
    /// Of all gradients of the recipe's model, with `threads` threads for the sums.
    ExchangeBench(const Recipe& recipe, World& world, unsigned threads);

    /// Exchanges so often, all at once, and times it. The first time it does so, links and caches are cold.
    void repeat(unsigned exchanges);
    void reset() { us_.clear(); }

    /// One value per repetition: of one exchange with its update.
    const std::vector<double>& us() const { return us_; }

private:
    StateLayout layout_;
    std::vector<ArenaRange> buckets_;
    std::unique_ptr<Device> memory_; ///< allocates the buffers, so it outlives them
    Buffer gradients_, parameters_;
    std::unique_ptr<RankedReducer> reducer_;
    std::vector<double> us_;
};

} // namespace towers
