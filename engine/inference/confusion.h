// Which classes a network takes for which.
#pragma once

#include "engine/execution/forward_pass.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace towers {

/// The examples of one class.
struct ClassFigures {
    std::uint64_t examples = 0, predicted = 0, correct = 0;

    /// The part of those predicted to be of the class that are; none if there are none.
    std::optional<double> precision() const { return part_of(correct, predicted); }
    /// The part of the class's examples that are recognized; none if there are none.
    std::optional<double> recall() const { return part_of(correct, examples); }
    /// The harmonic mean of both, 0 if one is 0 or missing; none if both are missing.
    std::optional<double> f1() const { return part_of(2 * correct, predicted + examples); }

private:
    static std::optional<double> part_of(std::uint64_t part, std::uint64_t whole) {
        return whole > 0 ? std::optional(double(part) / double(whole)) : std::nullopt;
    }
};

/// A confusion matrix. Classes are the network's.
class Confusion {
public:
    /// `labels`: each prediction's class. The predictions' losses are finite.
    Confusion(std::span<const std::uint32_t> labels, std::span<const Prediction> predictions,
              unsigned classes);

    unsigned classes() const { return unsigned(figures_.size()); }
    const ClassFigures& of(std::uint32_t label) const { return figures_[label]; }
    std::uint64_t count(std::uint32_t label, std::uint32_t predicted) const;
    /// The wrong class that the label's examples are taken for most often; none if they are never.
    std::optional<std::uint32_t> most_mistaken_for(std::uint32_t label) const;

private:
    std::vector<ClassFigures> figures_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> counts_; ///< above 0
};

} // namespace towers
