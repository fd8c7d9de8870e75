// What turns gradients into the next parameters: one file in this folder behind this interface, and one line
// in optimizers.def.
#pragma once

#include "engine/config/attributes.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// What a step of training needs to know from the host.
struct StepNumbers {
    float learning_rate = 0, average_decay = 0;
    float correction_1 = 1, correction_2 = 1; ///< for the bias of Adam's moments: 1 - beta^n
};

/// What an optimizer plans with: tensors that hold all trained variables, laid out alike.
struct UpdateTensors {
    TensorId gradients, parameters;
    std::vector<TensorId> state; ///< as Optimizer::state() lists it
    TensorId step, results; ///< every kernel of an update does nothing when the results tell of divergence
    unsigned quads;         ///< vec4s in each of the first three
    /// A slice of the parameters and its decay, for decoupled weight decay.
    struct Decay {
        TensorId parameters;
        std::string name;
        float rate;
        unsigned quads;
    };
    std::vector<Decay> decays; ///< of runs of variables that have the same
};

class Optimizer {
public:
    virtual ~Optimizer() = default;

    /// A state that the optimizer keeps for each trained variable, and how it begins.
    struct State {
        std::string name; ///< `Momentum`
        float initial = 0;
    };
    virtual std::vector<State> state() const { return {}; }

    /// Adds the operations of an update.
    virtual void update(Plan& plan, const UpdateTensors& tensors) const = 0;

    /// Fills in what update number `n`, counted from 1, needs beyond the learning rate.
    virtual void prepare(StepNumbers&, std::uint64_t /*n*/) const {}

    /// Whether weight decay is the optimizer's own doing, apart from the gradients and the loss (Loshchilov
    /// and Hutter 2019), else the loss gains it and the gradients follow.
    virtual bool decouples_decay() const { return false; }

    double learning_rate = 0;       ///< at the start
    float weight_decay = 0;         ///< of the weights of convolutions and dense layers
    bool decays_all = false;        ///< of every trained variable
    std::optional<float> clip_norm; ///< the most that the norm of all gradients together may be
};

/// Reads [optimizer]. UsageError for what is missing, wrong or unknown.
std::unique_ptr<const Optimizer> read_optimizer(Attributes attributes);

} // namespace towers
