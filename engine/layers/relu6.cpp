// y = min(max(x, 0), 6)
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_relu6(Attributes&) {
    return std::make_unique<Activation>(kernels::relu6_forward, kernels::relu6_backward, Saves::output,
                                        computation::Function::relu6);
}

} // namespace towers
