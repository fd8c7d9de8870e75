// y = log(1 + exp(x)) (Dugas et al. 2000)
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_softplus(Attributes&) {
    return std::make_unique<Activation>(kernels::softplus_forward, kernels::softplus_backward, Saves::input,
                                        computation::Function::softplus);
}

} // namespace towers
