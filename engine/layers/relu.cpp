// y = max(x, 0). engine/step/fuse.cpp fuses it into a neighbouring operation where it can.
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_relu(Attributes&) {
    return std::make_unique<Activation>(kernels::relu_forward, kernels::relu_backward, Saves::output,
                                        computation::Function::relu);
}

} // namespace towers
