// Optimizers in double precision, a step at a time, from the formulas of PyTorch's and TensorFlow's
// documents.
#pragma once

#include "tests/conformance/reference.h"

namespace towers::reference {

/// What an optimizer keeps for each parameter besides the parameter itself.
struct OptimizerState {
    Values parameters, first,
        second; ///< first: velocity or first moment; second: mean square or second moment
};

void sgd(OptimizerState& state, const Values& gradients, double rate);
void momentum(OptimizerState& state, const Values& gradients, double rate, double momentum, bool nesterov);

struct Rmsprop {
    double decay, momentum, epsilon;
};
/// torch.optim.RMSprop
void rmsprop_pytorch(OptimizerState& state, const Values& gradients, double rate, const Rmsprop& options);
/// tf.train.RMSPropOptimizer
void rmsprop_tensorflow(OptimizerState& state, const Values& gradients, double rate, const Rmsprop& options);

struct Adam {
    double beta1, beta2, epsilon, decay; ///< decay: AdamW's
};
/// torch.optim.AdamW; `step` counts from 1.
void adam(OptimizerState& state, const Values& gradients, double rate, const Adam& options, unsigned step);

} // namespace towers::reference
