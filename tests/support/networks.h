// Small networks and data for tests of the engine.
#pragma once

#include "engine/data/dataset.h"
#include "engine/model/cifar10_tutorial.h"
#include "engine/train/trainer.h"

#include <span>
#include <vector>

namespace towers::test {

/// The tutorial's layers with a fraction of their widths.
Recipe small_recipe(const Cifar10TutorialWidths& widths = {8, 16, 14, 12});

/// `count` noise images with labels, the same every time.
Dataset noise(std::size_t count);

TrainerOptions options_for(std::vector<std::string> towers, unsigned global_batch);

/// ||a - b|| / ||b||
double relative_norm(std::span<const float> a, std::span<const float> b);

} // namespace towers::test
