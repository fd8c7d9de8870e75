// Adam (Kingma and Ba 2015).
#include "engine/optimizers/adam.h"

#include <cmath>

namespace towers {

Adam::Adam(Attributes& attributes)
    : beta_1_(attributes.number("beta_1", 0, below_one, 0.9)),
      beta_2_(attributes.number("beta_2", 0, below_one, 0.999)),
      epsilon_(float(attributes.number("epsilon", 1e-30, 1e6, 1e-8))) {}

std::vector<Optimizer::State> Adam::state() const { return {{"Adam"}, {"Adam_1"}}; }

void Adam::update(Plan& plan, const UpdateTensors& t) const {
    plan.add("update", kernels::adam,
             {.gradients = t.gradients,
              .parameters = t.parameters,
              .first_moment = t.state[0],
              .second_moment = t.state[1],
              .step = t.step,
              .results = t.results,
              .quads = t.quads,
              .blend_1 = float(1 - beta_1_),
              .blend_2 = float(1 - beta_2_),
              .epsilon = epsilon_});
}

void Adam::prepare(StepNumbers& numbers, std::uint64_t n) const {
    numbers.correction_1 = float(1 - std::pow(beta_1_, double(n)));
    numbers.correction_2 = float(1 - std::pow(beta_2_, double(n)));
}

std::unique_ptr<Optimizer> make_adam(Attributes& attributes) { return std::make_unique<Adam>(attributes); }

} // namespace towers
