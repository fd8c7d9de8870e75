// What a network makes of pictures whose classes nobody knows.
#pragma once

#include "engine/data/source.h"
#include "engine/execution/forward_pass.h"

#include <cstdint>
#include <span>
#include <vector>

namespace towers {

struct ClassProbability {
    std::uint32_t label; ///< of the network's classes
    double probability;
};

/// The `count` classes with the highest scores, or all, the most probable first; of equal ones the first. The
/// probabilities are the softmax of the scores, which must be finite.
std::vector<ClassProbability> most_probable(std::span<const float> logits, std::size_t count);

/// The classes whose probability, the sigmoid of their score, is at least their threshold, the most probable
/// first; of equal ones the first. `thresholds`: of each class.
std::vector<ClassProbability> labels_above(std::span<const float> logits, std::span<const double> thresholds);

/// The examples at once: at most `most`, and so few that each of so many devices gets some batches, during
/// which the next ones are decoded, and the last batch is nearly full, since it is filled with records that
/// must be read again.
unsigned batch_for(std::uint64_t records, unsigned most, std::size_t devices);

/// Scores all records. The passes, each on a device of its own, take the batches as they finish, so a
/// record's device, and with that its last bits, depend on times. `see` is called by their threads, in any
/// order. `readers`: threads that read. Throws DeviceError, and what DataSource::read() throws.
void predict(std::span<ForwardPass> passes, std::span<const float> variables, const DataSource& data,
             unsigned readers, const SeeScores& see);

} // namespace towers
