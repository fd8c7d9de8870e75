// v = momentum * v + g; w -= learning rate * v, or, with `nesterov`, w -= learning rate * (g + momentum * v);
// both as in PyTorch.
#include "engine/optimizers/optimizer.h"

namespace towers {
namespace {

class Momentum final : public Optimizer {
public:
    explicit Momentum(Attributes& attributes)
        : momentum_(float(attributes.number("momentum", 0, 1, 0.9))),
          nesterov_(attributes.flag("nesterov", false)) {}

    std::vector<State> state() const override { return {{"Momentum"}}; }

    void update(Plan& plan, const UpdateTensors& t) const override {
        plan.add("update", kernels::momentum,
                 {.gradients = t.gradients,
                  .parameters = t.parameters,
                  .velocity = t.state[0],
                  .step = t.step,
                  .results = t.results,
                  .quads = t.quads,
                  .momentum = momentum_,
                  .nesterov = nesterov_ ? 1u : 0u});
    }

private:
    float momentum_;
    bool nesterov_;
};

} // namespace

std::unique_ptr<Optimizer> make_momentum(Attributes& attributes) {
    return std::make_unique<Momentum>(attributes);
}

} // namespace towers
