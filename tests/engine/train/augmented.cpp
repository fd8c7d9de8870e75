// A training with every augmentation is the same however its steps are divided, and goes on with the same
// bits.
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/ways.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace towers {
namespace {

Recipe recipe_with(const std::string& policy, const std::string& tables = "") {
    return parse_recipe("augmented",
                        fmt::format(R"(
[input]
shape = [20, 18, 3]
classes = 10
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 6, kernel = 3, stride = 2, activation = "silu" }},
  {{ name = "pool", kind = "global_average_pool" }},
  {{ name = "logits", kind = "dense", units = 10 }},
]
[pipeline]
values = "normalized"
mean = [0.5]
deviation = [0.25]
[pipeline.train]
box = "random_area"
area = [0.3, 1]
antialias = true
flip = "alternating"
flip_vertical = 0.3
rotation = [-30, 30]
rotation_interpolation = "bilinear"
{}
brightness = [0.7, 1.3]
contrast = [0.5, 1.5]
saturation = [0.5, 1.5]
hue = [-0.1, 0.1]
jitter_order = "random"
jitter_probability = 0.8
grayscale = 0.2
blur = {{ kernel = 3, probability = 0.5 }}
cutout = 4
erasing = {{ probability = 0.6, mode = "pixel", count = 2 }}
[optimizer]
kind = "momentum"
learning_rate = 0.1
[training]
batch = 12
steps = 20
{}
)",
                                    policy, tables),
                        "augmented.toml");
}

constexpr const char* mixing = "[mixing]\nmixup = 0.2\ncutmix = 1";
constexpr const char* rand_augment = "rand_augment = { operations = 2, magnitude = 15 }";

} // namespace

TEST_CASE("with every augmentation, any division of a step gives the same gradients") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {recipe_with(rand_augment), recipe_with("trivial_augment = true"),
                                 recipe_with(rand_augment, mixing)})
        test::check_any_division(recipe, data);
}

TEST_CASE("a training with every augmentation goes on with the same bits") {
    test::check_goes_on(recipe_with(rand_augment, mixing), test::noise(50), 6, 9); // in the second epoch
}

} // namespace towers
