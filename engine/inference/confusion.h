// Which classes a network takes for which.
#pragma once

#include "engine/execution/forward_pass.h"
#include "engine/inference/class_figures.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace towers {

/// A confusion matrix. Classes are the network's.
class Confusion {
public:
    /// `labels`: each prediction's class. The predictions' losses are finite.
    Confusion(std::span<const std::uint32_t> labels, std::span<const Prediction> predictions,
              unsigned classes);

    unsigned classes() const { return unsigned(figures_.size()); }
    const ClassFigures& of(std::uint32_t label) const { return figures_[label]; }
    std::span<const ClassFigures> figures() const { return figures_; }
    std::uint64_t count(std::uint32_t label, std::uint32_t predicted) const;
    /// The wrong class that the label's examples are taken for most often; none if they are never.
    std::optional<std::uint32_t> most_mistaken_for(std::uint32_t label) const;

private:
    std::vector<ClassFigures> figures_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> counts_; ///< above 0
};

} // namespace towers
