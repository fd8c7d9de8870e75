#include "engine/plan/loss_scale.h"

#include <cmath>

namespace towers {

bool is_sound(const LossScale& scale) {
    int exponent = 0;
    const bool is_power = std::frexp(scale.scale, &exponent) == 0.5f; // 2^exponent / 2
    return is_power && exponent >= 1 && exponent <= 127 && scale.good_steps < steps_of_a_loss_scale;
}

std::optional<LossScale> first_loss_scale(Precision precision) {
    return precision == Precision::fp16 ? std::optional<LossScale>(LossScale{}) : std::nullopt;
}

LossScale after_good_step(LossScale now) {
    if (++now.good_steps < steps_of_a_loss_scale) return now;
    return {now.scale < largest_loss_scale ? 2 * now.scale : now.scale, 0};
}

std::optional<LossScale> after_overflow(LossScale now) {
    if (now.scale <= 1) return std::nullopt;
    return LossScale{now.scale / 2, 0};
}

} // namespace towers
