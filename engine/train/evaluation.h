// How well parameters do on a data set.
#pragma once

#include "backends/device.h"
#include "engine/towers/tower.h"
#include "engine/train/recipe.h"

#include <memory>
#include <span>

namespace towers {

struct Evaluation {
    std::uint64_t examples = 0, correct = 0;
    double cross_entropy = 0; ///< mean over the examples

    double precision() const { return double(correct) / double(examples); } ///< precision @ 1
};

class Evaluator {
public:
    Evaluator(std::unique_ptr<Device> device, const Model& model, const Dataset& data, unsigned batch);

    /// `parameters`: a whole arena, laid out as layout_parameters(model) says. Each example counts once,
    /// unless `padded` asks for whole batches, filled up with the first examples.
    Evaluation run(std::span<const float> parameters, bool padded);

private:
    std::unique_ptr<Device> device_;
    unsigned batch_;
    std::uint64_t records_;
    ParameterLayout layout_;
    Plan plan_;
    std::array<Buffer, arena_count> arenas_;
    Recording recording_;
};

} // namespace towers
