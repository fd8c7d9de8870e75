#include "tests/support/networks.h"

#include "tests/support/devices.h"

#include <cmath>
#include <random>

namespace towers::test {

Recipe small_recipe(const Cifar10TutorialWidths& widths) {
    Recipe recipe = find_recipe("cifar10-tutorial");
    recipe.model = cifar10_tutorial(widths);
    return recipe;
}

Dataset noise(std::size_t count) {
    Dataset data{.name = "noise", .height = 32, .width = 32, .channels = 3};
    data.classes.assign(10, "noise");
    std::mt19937 words(7);
    data.images.resize(count * 3072);
    for (std::uint8_t& byte : data.images) byte = std::uint8_t(words() >> 24);
    for (std::size_t i = 0; i < count; ++i) data.labels.push_back(words() % 10);
    return data;
}

TrainerOptions options_for(std::vector<std::string> towers, unsigned global_batch) {
    return {.towers = std::move(towers),
            .global_batch = global_batch,
            .shares = {},
            .learning_rate = 0.1,
            .seed = 3,
            .distort = true,
            .shuffle = true,
            .quirks = {},
            .open = open_options()};
}

double relative_norm(std::span<const float> a, std::span<const float> b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
        norm += double(b[i]) * double(b[i]);
    }
    return std::sqrt(difference / norm);
}

} // namespace towers::test
