#include "engine/plan/loss_scale.h"

#include <doctest/doctest.h>
#include <limits>

namespace towers {

TEST_CASE("a loss scale doubles after 2,000 good steps, up to 2^24") {
    LossScale scale;
    CHECK(scale.scale == 65536);
    for (unsigned step = 1; step <= steps_of_a_loss_scale; ++step) {
        CHECK(scale == LossScale{65536, step - 1});
        scale = after_good_step(scale);
    }
    CHECK(scale == LossScale{131072, 0});
    for (unsigned step = 0; step < 20 * steps_of_a_loss_scale; ++step) {
        scale = after_good_step(scale);
        REQUIRE(is_sound(scale));
    }
    CHECK(scale == LossScale{largest_loss_scale, 0});
}

TEST_CASE("a loss scale halves at each overflow, counts its good steps anew, and ends at 1") {
    CHECK(after_overflow({65536, 1999}) == LossScale{32768, 0});
    CHECK(after_overflow({2, 7}) == LossScale{1, 0});
    CHECK_FALSE(after_overflow({1, 7}));
    unsigned halvings = 0;
    for (std::optional<LossScale> scale = LossScale{}; (scale = after_overflow(*scale)); ++halvings)
        CHECK(is_sound(*scale));
    CHECK(halvings == 16);
}

TEST_CASE("only fp16 needs a loss scale") {
    for (const Precision precision : all_precisions) {
        const bool scales = first_loss_scale(precision) == LossScale{};
        CHECK(scales == (precision == Precision::fp16));
        CHECK(first_loss_scale(precision).has_value() == scales);
    }
}

TEST_CASE("a number that is no power of two, or has no reciprocal, is no loss scale") {
    for (const float scale : {1.0f, 2.0f, 65536.0f, 0x1p126f}) CHECK(is_sound({scale, 1999}));
    for (const float scale :
         {0.0f, -2.0f, 0.5f, 3.0f, 65535.0f, 0x1p127f, std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()})
        CHECK_FALSE(is_sound({scale, 0}));
    CHECK_FALSE(is_sound({2, 2000}));
}

} // namespace towers
