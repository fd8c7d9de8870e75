// How well parameters do on a data set.
#pragma once

#include "backends/device.h"
#include "engine/recipes/recipe.h"
#include "engine/towers/tower.h"

#include <memory>
#include <span>
#include <vector>

namespace towers {

struct Evaluation {
    std::uint64_t examples = 0, correct = 0;
    double loss_sum = 0; ///< of the examples' cross entropies

    double precision() const { return double(correct) / double(examples); } ///< precision @ 1
    double cross_entropy() const { return loss_sum / double(examples); }
};

/// Evaluates on one device.
class Evaluator {
public:
    Evaluator(std::unique_ptr<Device> device, const Recipe& recipe, const DataSource& data, unsigned batch);

    /// Evaluates every `stride`-th batch, starting with batch `first`. `variables`: with the
    /// statistics, laid out as StateLayout says. Each example counts once, unless `padded` asks for whole
    /// batches, filled up with the first examples.
    Evaluation run(std::span<const float> variables, bool padded, std::size_t first, std::size_t stride);

private:
    std::unique_ptr<Device> device_;
    unsigned batch_;
    std::uint64_t records_;
    ResidentFeed feed_;
    Model model_;
    StateLayout layout_;
    Plan plan_;
    std::array<Buffer, arena_count> arenas_;
    Recording recording_;
};

/// Evaluates the whole data set: the evaluators share its batches and work at the same time.
Evaluation evaluate(const std::vector<std::unique_ptr<Evaluator>>& evaluators,
                    std::span<const float> variables, bool padded);

} // namespace towers
