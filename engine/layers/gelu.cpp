// y = x times the standard normal distribution function of x (Hendrycks and Gimpel 2016), or their
// approximation by a hyperbolic tangent
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_gelu(Attributes& attributes) {
    if (attributes.choice("approximate", {"none", "tanh"}, "none") == "tanh")
        return std::make_unique<Activation>(kernels::gelu_tanh_forward, kernels::gelu_tanh_backward,
                                            Saves::input, computation::Function::gelu_tanh);
    return std::make_unique<Activation>(kernels::gelu_forward, kernels::gelu_backward, Saves::input,
                                        computation::Function::gelu);
}

} // namespace towers
