// How well a network tells the examples of one class from all others, and averages over the classes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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

/// How far a class's probability puts its own examples before all others.
struct Ranking {
    /// The part of all pairs of an example of the class and another one in which the former has the higher
    /// probability; equal ones count half. None without examples of the class or of others.
    std::optional<double> auc;
    /// The sum of precision * growth of recall over all thresholds. None without examples of the class.
    std::optional<double> average_precision;
};

/// An example's probability of a class, or what grows with it, and whether it is one of its examples.
struct RankedExample {
    double probability;
    bool is_its;
};

/// Calls visit(label, its examples) for each class. `score(example, label)`: what an example is ranked by.
/// `labels_of(example)`: its labels.
template<class Score, class LabelsOf, class Visit>
void for_each_class(std::size_t examples, unsigned classes, const Score& score, const LabelsOf& labels_of,
                    const Visit& visit) {
    constexpr unsigned at_once = 16; // neighbours in memory
    std::vector<RankedExample> ranked(at_once * examples);
    for (unsigned first = 0; first < classes; first += at_once) {
        const unsigned count = std::min(at_once, classes - first);
        for (std::size_t i = 0; i < examples; ++i) {
            for (unsigned c = 0; c < count; ++c) ranked[c * examples + i] = {score(i, first + c), false};
            for (const std::uint32_t label : labels_of(i))
                if (label >= first && label < first + count)
                    ranked[(label - first) * examples + i].is_its = true;
        }
        for (unsigned c = 0; c < count; ++c)
            visit(first + c, std::span(ranked).subspan(c * examples, examples));
    }
}

/// Sorts the examples, the most probable first.
Ranking rank(std::span<RankedExample> examples);

/// Over the classes for which there is a figure.
struct Averages {
    std::optional<double> macro;    ///< each class counts alike
    std::optional<double> weighted; ///< by its examples
    std::optional<double> micro;    ///< of all classes' examples together, where they may have several labels
};

/// Macro and weighted averages over the classes of which `figure(label)` returns a figure.
Averages average(std::span<const ClassFigures> classes,
                 const std::function<std::optional<double>(std::uint32_t)>& figure);

/// What reports on one label an example and on several have in common.
struct ClassAverages {
    std::vector<Ranking> rankings = {};            ///< by class; empty without scores
    Averages precision = {}, recall = {}, f1 = {}; ///< one that a class does not have counts as 0
    Averages auc = {}, average_precision = {};     ///< of the rankings

    /// Averages the rankings.
    void average_rankings(std::span<const ClassFigures> classes);
};

} // namespace towers
