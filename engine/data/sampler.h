// The order of the examples in training.
#pragma once

#include "engine/data/example.h"
#include "engine/data/philox.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// How often a Sampler takes examples.
enum class Sampling {
    uniform,  ///< each example equally often
    balanced, ///< each class equally often, and each example of a class equally often
};

/// The endless stream of examples. Uniform: position p is place p % records of epoch p / records, and each
/// epoch has its own permutation, made from (seed, epoch) alone. Balanced: positions come in blocks of as
/// many as there are classes; each block has one example of each class, in an order made from (seed, block).
/// Block b takes example b % size of pass b / size over a class of that size; each pass has its own
/// permutation, made from (seed, class, pass), and is the epoch of its examples. So batches cross the ends of
/// epochs, a run resumes at any position with the same bits, and cutting the stream into batches or shares
/// changes nothing.
class Sampler {
public:
    /// Uniform. Without shuffling, every epoch has the records in order. std::invalid_argument for 0 records.
    Sampler(std::uint32_t records, std::uint64_t seed, bool shuffle);

    /// Balanced. Without shuffling, every block has the classes in order, and every pass the records.
    /// std::invalid_argument if there are no records, or none of a class below the largest label.
    Sampler(std::span<const std::uint32_t> labels, std::uint64_t seed, bool shuffle);

    /// Record and epoch of the examples at positions `first`, `first` + 1, ...
    void fill(std::uint64_t first, std::span<Example> out);

private:
    /// An order of numbers below some bound, of one epoch or pass.
    struct Epoch {
        std::uint32_t number = 0;
        std::vector<std::uint32_t> order; // empty before its first use
    };
    struct Class {
        std::vector<std::uint32_t> records;
        Epoch pass; // of `records`
    };
    void fill_uniform(std::uint64_t first, std::span<Example> out);
    void fill_balanced(std::uint64_t first, std::span<Example> out);
    const std::vector<std::uint32_t>& permutation(Epoch& slot, std::uint32_t number, std::size_t count,
                                                  PhiloxStream random) const;

    std::uint32_t records_;
    std::uint64_t seed_;
    bool shuffle_;
    std::array<Epoch, 2> epochs_; // a batch at an epoch's end needs this one and the next
    std::vector<Class> classes_;  // empty: uniform
    std::vector<std::uint32_t> block_;
};

} // namespace towers
