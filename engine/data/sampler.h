// The order of the examples in training.
#pragma once

#include "engine/data/example.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// The endless stream of examples: position p is place p % records of epoch p / records, and each epoch has
/// its own permutation, made from (seed, epoch) alone. So batches cross the ends of epochs, a run resumes at
/// any position with the same bits, and cutting the stream into batches or shares changes nothing.
class Sampler {
public:
    /// Without shuffling, every epoch has the records in order. std::invalid_argument for 0 records.
    Sampler(std::uint32_t records, std::uint64_t seed, bool shuffle);

    /// Record and epoch of the examples at positions `first`, `first` + 1, ...
    void fill(std::uint64_t first, std::span<Example> out);

private:
    const std::vector<std::uint32_t>& permutation(std::uint32_t epoch);

    struct Epoch {
        std::uint32_t number = 0;
        std::vector<std::uint32_t> order; // empty before its first use
    };
    std::uint32_t records_;
    std::uint64_t seed_;
    bool shuffle_;
    std::array<Epoch, 2> epochs_; // a batch at an epoch's end needs this one and the next
};

} // namespace towers
