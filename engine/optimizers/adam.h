// Shared code of Adam and AdamW.
#pragma once

#include "engine/optimizers/optimizer.h"

namespace towers {

class Adam : public Optimizer {
public:
    explicit Adam(Attributes& attributes);
    std::vector<State> state() const override;
    void update(Plan& plan, const UpdateTensors& tensors) const override;
    void prepare(StepNumbers& numbers, std::uint64_t n) const override;

private:
    double beta_1_, beta_2_;
    float epsilon_;
};

} // namespace towers
