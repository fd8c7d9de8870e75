// Trainings whose scaled gradients overflow in a step that the tests choose.
#pragma once

#include "engine/train/trainer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace towers::test {

/// One dense layer on images of two pixels of 0 to 2^14. With weights near 0 and batches of two equal images,
/// of a value x in the first pixel, the gradients of the weights are near 2^13 x / 255.
Recipe pixel_recipe();

/// Images with these first and second pixels, the second 0 if none are given.
Dataset pixels(const std::vector<std::uint8_t>& first, const std::vector<std::uint8_t>& second = {});

constexpr std::uint64_t steps = 7, bright_step = 3;
constexpr float high =
    0x1p118f; ///< a scale with which the gradients of bright images overflow, and no others

/// Steps of two dark images, but for one of bright ones.
Dataset one_bright_step();

/// Takes the images as they come.
TrainerOptions in_order(const std::vector<std::string>& towers, unsigned global_batch = 2);

/// What a run with overflows leaves.
struct Run {
    std::vector<float> losses, scales;
    TrainingState state;
};

/// `ahead`: whether each step but the last is told that another one follows.
Run run_on(Trainer& trainer, std::uint64_t last, bool ahead);

/// Each way to take the steps of two examples.
void for_each_way(const std::function<void(TrainerOptions options, bool ahead)>& test);

} // namespace towers::test
