// y = max(x, 0). engine/plan/fuse.cpp lets the neighbours do it where they can.
#include "engine/layers/activation.h"

namespace towers {

std::unique_ptr<const Layer> make_relu(Attributes&) {
    return std::make_unique<Activation>(kernels::relu_forward, kernels::relu_backward, Saves::output);
}

} // namespace towers
