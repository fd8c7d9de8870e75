// Evaluates parameters on a data set.
#pragma once

#include "engine/data/batch_reader.h"
#include "engine/recipes/recipe.h"
#include "engine/towers/feeding.h"
#include "engine/towers/session.h"
#include "engine/towers/staged_images.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace towers {

struct Evaluation {
    std::uint64_t examples = 0, correct = 0;
    double loss_sum = 0; ///< sum of the examples' cross entropies

    double precision() const { return double(correct) / double(examples); } ///< precision @ 1
    double cross_entropy() const { return loss_sum / double(examples); }
};

/// Evaluates on one device, which must outlive it.
class Evaluator {
public:
    /// Has the device load the data, or streams it, as streams() says for this device alone; the data must
    /// then outlive the evaluator. `batch`: examples at once, if there are as many.
    Evaluator(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch,
              Feeding feeding = Feeding::automatic);
    /// Shares the records of a session whose feed has loaded `data`, such as that of a tower that trains on
    /// it. One thread at a time uses both.
    Evaluator(const Session& loaded, const Recipe& recipe, const DataSource& data, unsigned batch);

    /// Evaluates every `stride`-th batch from batch `first` on. `variables`: including statistics, laid out
    /// as StateLayout says. Each example counts once; with `padded`, the last batch is filled with the first
    /// examples, which count again.
    /// InputError when streamed data cannot be read.
    Evaluation run(std::span<const float> variables, bool padded, std::size_t first, std::size_t stride);

private:
    Evaluator(const Session& loaded, const Recipe& recipe, const DataSource& data, unsigned batch,
              const DataSource* streamed);
    void compute(BatchReader& reader, std::uint64_t first);

    unsigned batch_;
    std::uint64_t records_;
    const DataSource* streamed_; ///< null: the device holds the data
    ResidentFeed feed_;
    Plan plan_;
    Session session_;
    Recording recording_;
    std::optional<StagedImages> images_; ///< if the data is streamed
};

/// Evaluates the whole data set: the evaluators share its batches and work at the same time, each on a device
/// of its own.
Evaluation evaluate(std::span<Evaluator> evaluators, std::span<const float> variables, bool padded);

} // namespace towers
