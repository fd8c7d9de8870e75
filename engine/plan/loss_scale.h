// Loss scaling: the factor of the loss's gradient that keeps small gradients in the range of fp16 on their
// way back through the network. It is a power of two, so it changes no digit of a number that stays in range.
#pragma once

#include "backends/precision.h"

#include <optional>

namespace towers {

constexpr float largest_loss_scale = 0x1p24f;    ///< that a scale grows to
constexpr unsigned steps_of_a_loss_scale = 2000; ///< with finite gradients, after which it is doubled

struct LossScale {
    float scale = 0x1p16f;   ///< of the next step: at least 1, and its reciprocal is a normal number
    unsigned good_steps = 0; ///< that have been taken with it; less than steps_of_a_loss_scale

    bool operator==(const LossScale&) const = default;
};

/// Whether the numbers, as from a file, are a loss scale's.
bool is_sound(const LossScale& scale);

/// What a training begins with whose products have this precision; none: it needs no scaling.
std::optional<LossScale> first_loss_scale(Precision precision);

/// For the step after one with finite gradients.
LossScale after_good_step(LossScale now);

/// For repeating a step whose gradients are not finite though its loss is. None if a scale of 1 was not small
/// enough: then the training has diverged.
std::optional<LossScale> after_overflow(LossScale now);

} // namespace towers
