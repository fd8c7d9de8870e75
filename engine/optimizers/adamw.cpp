// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
#include "engine/optimizers/adam.h"

namespace towers {
namespace {

class AdamW final : public Adam {
public:
    using Adam::Adam;

    bool decouples_decay() const override { return true; }

    void update(Plan& plan, const UpdateTensors& t) const override {
        for (const UpdateTensors::Decay& decay : t.decays)
            plan.add(decay.name + " decay", kernels::decoupled_decay,
                     {.parameters = decay.parameters,
                      .step = t.step,
                      .results = t.results,
                      .decay = decay.rate,
                      .quads = decay.quads});
        Adam::update(plan, t);
    }
};

} // namespace

std::unique_ptr<Optimizer> make_adamw(Attributes& attributes) { return std::make_unique<AdamW>(attributes); }

} // namespace towers
