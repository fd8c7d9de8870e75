// y = 1 / (1 + exp(-x))
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_sigmoid(Attributes&) {
    return std::make_unique<Activation>(kernels::sigmoid_forward, kernels::sigmoid_backward, Saves::output,
                                        computation::Function::sigmoid);
}

} // namespace towers
