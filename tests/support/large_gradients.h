// Examples and a state of small_recipe() with which chosen gradients become large.
#pragma once

#include "engine/train/trainer.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers::test {

/// A noisy image for each label
inline Dataset labelled(const std::vector<std::uint32_t>& labels) {
    const Dataset data = noise(labels.size());
    return {data.info(), {data.images().begin(), data.images().end()}, labels};
}

/// A state of small_recipe() in which everything before local4 is small, and the gradient of local4/weights
/// gets about -0.9 `size` / batch from an example of class 0 and a ninth of that from any other.
inline TrainingState state_with_gradient(const Trainer& trainer, double size) {
    TrainingState state{.state = std::vector<float>(trainer.layout().bytes / sizeof(float))};
    const auto values = [&](const std::string& variable) {
        return part(std::span(state.state), trainer.layout().find(variable).range);
    };
    constexpr float weight = 1e20f;
    std::ranges::fill(values("local3/biases"), float(size / weight));
    std::ranges::fill(values("local4/biases"), 1e-23f);
    const auto last = values("softmax_linear/weights");
    for (std::size_t i = 0; i < last.size(); i += 10) last[i] = weight; // of class 0
    return state;
}

} // namespace towers::test
