// RMSProp (Hinton 2012): divides gradients by the root of their moving mean square. Adds epsilon to the root,
// as PyTorch does, or with `epsilon_inside` to the mean square, as TensorFlow does. In TensorFlow's form the
// mean square starts at one and the velocity contains the learning rate.
#include "engine/optimizers/optimizer.h"

namespace towers {
namespace {

class Rmsprop final : public Optimizer {
public:
    explicit Rmsprop(Attributes& attributes)
        : blend_(float(1 - attributes.number("decay", 0, below_one, 0.9))),
          momentum_(float(attributes.number("momentum", 0, 1, 0))),
          epsilon_(float(attributes.number("epsilon", 1e-30, 1e6, 1e-8))),
          epsilon_inside_(attributes.flag("epsilon_inside", false)) {}

    std::vector<State> state() const override {
        return {{"RMSProp", epsilon_inside_ ? 1.0f : 0.0f}, {"Momentum"}};
    }

    void update(Plan& plan, const UpdateTensors& t) const override {
        plan.add("update", kernels::rmsprop,
                 {.gradients = t.gradients,
                  .parameters = t.parameters,
                  .mean_square = t.state[0],
                  .velocity = t.state[1],
                  .step = t.step,
                  .results = t.results,
                  .quads = t.quads,
                  .blend = blend_,
                  .momentum = momentum_,
                  .epsilon = epsilon_,
                  .epsilon_inside = epsilon_inside_ ? 1u : 0u});
    }

private:
    float blend_, momentum_, epsilon_;
    bool epsilon_inside_;
};

} // namespace

std::unique_ptr<Optimizer> make_rmsprop(Attributes& attributes) {
    return std::make_unique<Rmsprop>(attributes);
}

} // namespace towers
