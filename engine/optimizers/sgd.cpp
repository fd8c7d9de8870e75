// w -= learning rate * g
#include "engine/optimizers/optimizer.h"

namespace towers {
namespace {

class Sgd final : public Optimizer {
public:
    void update(Plan& plan, const UpdateTensors& t) const override {
        plan.add("update", kernels::sgd,
                 {.gradients = t.gradients,
                  .parameters = t.parameters,
                  .step = t.step,
                  .results = t.results,
                  .quads = t.quads});
    }
};

} // namespace

std::unique_ptr<Optimizer> make_sgd(Attributes&) { return std::make_unique<Sgd>(); }

} // namespace towers
