// y = x / (1 + exp(-x)) (Elfwing et al. 2018)
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_silu(Attributes&) {
    return std::make_unique<Activation>(kernels::silu_forward, kernels::silu_backward, Saves::input,
                                        computation::Function::silu);
}

} // namespace towers
