#include "engine/inference/confusion.h"

namespace towers {

Confusion::Confusion(std::span<const std::uint32_t> labels, std::span<const Prediction> predictions,
                     unsigned classes)
    : figures_(classes) {
    for (std::size_t i = 0; i < predictions.size(); ++i) {
        const std::uint32_t label = labels[i], predicted = predictions[i].predicted;
        ++counts_[{label, predicted}];
        ++figures_[label].examples;
        ++figures_[predicted].predicted;
        figures_[label].correct += label == predicted;
    }
}

std::uint64_t Confusion::count(std::uint32_t label, std::uint32_t predicted) const {
    const auto found = counts_.find({label, predicted});
    return found != counts_.end() ? found->second : 0;
}

std::optional<std::uint32_t> Confusion::most_mistaken_for(std::uint32_t label) const {
    std::optional<std::uint32_t> most;
    for (auto entry = counts_.lower_bound({label, 0}); entry != counts_.end() && entry->first.first == label;
         ++entry) {
        const std::uint32_t predicted = entry->first.second;
        if (predicted != label && (!most || entry->second > count(label, *most))) most = predicted;
    }
    return most;
}

} // namespace towers
