// y = x times the normal distribution's probability below x (Hendrycks and Gimpel 2016)
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_gelu(Attributes&) {
    return std::make_unique<Activation>(kernels::gelu_forward, kernels::gelu_backward, Saves::input);
}

} // namespace towers
