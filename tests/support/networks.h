// Small networks and data for the engine's tests.
#pragma once

#include "engine/data/source.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace towers::test {

/// The tutorial's recipe with narrower layers.
struct Widths {
    unsigned conv1 = 8, conv2 = 16, local3 = 14, local4 = 12;
};
Recipe small_recipe(const Widths& widths = {});

/// A convolution, a batch norm, global pooling and a dense layer for noise(). It has no kinks, so rounding
/// errors stay small. `group`: the batch norm's. `more`: layers after the batch norm.
Recipe smooth_recipe(const std::string& group, const std::string& more = "");

/// The spec for planning a recipe's step on noise() or similar data.
NetworkSpec spec_of(const Recipe& recipe, const StateLayout& layout, unsigned batch, std::size_t slots);
UpdateSpec update_of(const Recipe& recipe, const StateLayout& layout);

/// `count` noise images with labels, the same every time.
Dataset noise(std::size_t count);

/// Test examples that the caller owns.
inline std::shared_ptr<const DataSource> borrowed(const DataSource& data) {
    return {std::shared_ptr<void>(), &data};
}

/// A fixture's images and labels, from its tensors `images_name` and `labels`; class names are arbitrary.
Dataset records_of(const TensorFile& file, const std::string& images_name, const ImageSize& size,
                   std::size_t classes);

/// The tensors whose names begin with `prefix`, named without it.
TensorFile tensors_under(const TensorFile& file, const std::string& prefix);

TrainerOptions options_for(std::vector<std::string> towers, unsigned global_batch);

/// Options with which a trainer uses the device that `wrap` makes of the tower's.
void wrap_tower(TrainerOptions& options, std::size_t tower,
                std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> wrap);

/// ||a - b|| / ||b||
double relative_norm(std::span<const float> a, std::span<const float> b);

} // namespace towers::test
