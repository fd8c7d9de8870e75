#include "tests/conformance/reference_optimizers.h"

#include <cmath>

namespace towers::reference {

void sgd(OptimizerState& s, const Values& gradients, double rate) {
    for (std::size_t i = 0; i < gradients.size(); ++i) s.parameters[i] -= rate * gradients[i];
}

void momentum(OptimizerState& s, const Values& gradients, double rate, double momentum, bool nesterov) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        s.first[i] = momentum * s.first[i] + gradients[i];
        s.parameters[i] -= rate * (nesterov ? gradients[i] + momentum * s.first[i] : s.first[i]);
    }
}

void rmsprop_pytorch(OptimizerState& s, const Values& gradients, double rate, const Rmsprop& o) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        s.second[i] = o.decay * s.second[i] + (1 - o.decay) * gradients[i] * gradients[i];
        s.first[i] = o.momentum * s.first[i] + gradients[i] / (std::sqrt(s.second[i]) + o.epsilon);
        s.parameters[i] -= rate * s.first[i];
    }
}

void rmsprop_tensorflow(OptimizerState& s, const Values& gradients, double rate, const Rmsprop& o) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        s.second[i] = o.decay * s.second[i] + (1 - o.decay) * gradients[i] * gradients[i];
        s.first[i] = o.momentum * s.first[i] + rate * gradients[i] / std::sqrt(s.second[i] + o.epsilon);
        s.parameters[i] -= s.first[i];
    }
}

void adam(OptimizerState& s, const Values& gradients, double rate, const Adam& o, unsigned step) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        s.parameters[i] *= 1 - rate * o.decay;
        s.first[i] = o.beta1 * s.first[i] + (1 - o.beta1) * gradients[i];
        s.second[i] = o.beta2 * s.second[i] + (1 - o.beta2) * gradients[i] * gradients[i];
        const double first = s.first[i] / (1 - std::pow(o.beta1, step));
        const double second = s.second[i] / (1 - std::pow(o.beta2, step));
        s.parameters[i] -= rate * first / (std::sqrt(second) + o.epsilon);
    }
}

} // namespace towers::reference
