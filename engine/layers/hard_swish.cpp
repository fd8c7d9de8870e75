// y = x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019)
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_hard_swish(Attributes&) {
    return std::make_unique<Activation>(kernels::hard_swish_forward, kernels::hard_swish_backward,
                                        Saves::input, computation::Function::hard_swish);
}

} // namespace towers
