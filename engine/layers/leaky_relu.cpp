// y = x above zero, else slope x (Maas et al. 2013)
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_leaky_relu(Attributes& attributes) {
    return std::make_unique<Activation>(kernels::leaky_relu_forward, kernels::leaky_relu_backward,
                                        Saves::input, computation::Function::leaky_relu,
                                        float(attributes.number("slope", 0, 1, 0.01)));
}

} // namespace towers
