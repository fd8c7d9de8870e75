#include "engine/shares/shares.h"
#include "backends/error.h"

#include <doctest/doctest.h>

namespace towers {

TEST_CASE("recorded shares of other towers or another batch are refused") {
    const auto check = [](const std::vector<unsigned>& shares, unsigned towers, unsigned global,
                          unsigned group) {
        return first_shares({.automatic = false, .weights = {}, .recorded = {{3, shares}}}, global, towers,
                            group);
    };
    CHECK(check({8, 0}, 2, 8, 4) == std::vector{8u, 0u});
    CHECK_THROWS_WITH_AS(
        check({8, 0}, 3, 8, 4),
        "--shares: from step 3 on they were 8:0, of 2 towers, and this run has 3; give as many "
        "as the run that recorded them",
        UsageError);
    CHECK_THROWS_WITH_AS(check({8, 0}, 2, 16, 4),
                         "--shares: from step 3 on they were 8:0, which are 8 examples a step, and this run "
                         "takes 16; give --global-batch 8",
                         UsageError);
    CHECK_THROWS_WITH_AS(
        check({6, 2}, 2, 8, 4),
        "--shares: from step 3 on they were 6:2, which are no whole groups of 4 examples, as "
        "the recipe's batch norm takes; give the recipe of the run that recorded them",
        UsageError);
}

} // namespace towers
