// The interface of an optimizer, which turns gradients into the next parameters. Each is one file in this
// folder and one line in optimizers.def.
#pragma once

#include "engine/config/attributes.h"
#include "engine/plan/plan.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// The numbers that the host gives a training step.
struct StepNumbers {
    float learning_rate = 0, average_decay = 0;
    float correction_1 = 1, correction_2 = 1; ///< bias corrections of Adam's moments: 1 - beta^n
    /// Whether the step is submitted before the results of the one before it are known. If those are not
    /// finite, the step changes nothing either.
    bool follows = false;
    float loss_scale = 1; ///< of the loss's gradient, in plans with loss scaling
};

/// The tensors for an optimizer's operations; gradients, parameters and each state hold all trained variables
/// in one layout.
struct UpdateTensors {
    TensorId gradients, parameters;
    std::vector<TensorId> state; ///< as Optimizer::state() lists it
    TensorId step, results;      ///< kernels of an update do nothing if `results` tells of divergence
    unsigned quads;              ///< vec4s of gradients, of parameters and of each state
    /// A slice of the parameters and its rate of decoupled weight decay.
    struct Decay {
        TensorId parameters;
        std::string name;
        float rate;
        unsigned quads;
    };
    std::vector<Decay> decays; ///< one per run of variables with equal decay
};

class Optimizer {
public:
    virtual ~Optimizer() = default;

    /// A value that the optimizer keeps for each trained parameter, and its initial value.
    struct State {
        std::string name; ///< `Momentum`
        float initial = 0;
    };
    virtual std::vector<State> state() const { return {}; }

    /// Adds the operations of an update.
    virtual void update(Plan& plan, const UpdateTensors& tensors) const = 0;

    /// Fills in the numbers, besides the learning rate, of update `n`, counted from 1.
    virtual void prepare(StepNumbers&, std::uint64_t /*n*/) const {}

    /// Whether the optimizer shrinks the weights itself (Loshchilov and Hutter 2019). Otherwise weight decay
    /// is part of the loss and the gradients.
    virtual bool decouples_decay() const { return false; }

    double learning_rate = 0;       ///< before the schedule's factor
    float weight_decay = 0;         ///< of the weights of convolutions and dense layers
    bool decays_all = false;        ///< weight decay applies to every trained variable
    std::optional<float> clip_norm; ///< the largest norm of all gradients together
};

/// Reads [optimizer]. Throws UsageError for missing, wrong or unknown keys.
std::unique_ptr<const Optimizer> read_optimizer(Attributes attributes);

} // namespace towers
