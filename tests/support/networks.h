// Small networks and data for tests of the engine.
#pragma once

#include "engine/data/dataset.h"
#include "engine/run/safetensors.h"
#include "engine/train/trainer.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace towers::test {

/// The tutorial's recipe with a fraction of its layers' widths.
struct Widths {
    unsigned conv1 = 8, conv2 = 16, local3 = 14, local4 = 12;
};
Recipe small_recipe(const Widths& widths = {});

/// A convolution, a batch norm, global pooling and a dense layer for noise(), without kinks, so that rounding
/// stays rounding. `group`: the batch norm's. `more`: layers behind it.
Recipe smooth_recipe(const std::string& group, const std::string& more = "");

/// What plans are made with: a recipe's spec for noise() or data like it.
NetworkSpec spec_of(const Recipe& recipe, const StateLayout& layout, unsigned batch, std::size_t records);
UpdateSpec update_of(const Recipe& recipe, const StateLayout& layout);

/// `count` noise images with labels, the same every time.
Dataset noise(std::size_t count);

/// Images and labels that a fixture keeps: tensors `images_name` and `labels`; any names for its classes.
Dataset records_of(const TensorFile& file, const std::string& images_name, const ImageSize& size,
                   std::size_t classes);

/// The tensors whose names begin with `prefix`, without it.
TensorFile tensors_under(const TensorFile& file, const std::string& prefix);

TrainerOptions options_for(std::vector<std::string> towers, unsigned global_batch);

/// A trainer with these options gets the tower's device as `wrap` returns it.
void wrap_tower(TrainerOptions& options, std::size_t tower,
                std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> wrap);

/// ||a - b|| / ||b||
double relative_norm(std::span<const float> a, std::span<const float> b);

} // namespace towers::test
