// Shared code of the activations: each is two elementwise kernels, forward and backward.
#pragma once

#include "engine/layers/layer.h"

namespace towers {

/// The tensor that an activation's backward kernel reads besides the output's gradient.
enum class Saves { input, output };

class Activation : public Layer {
public:
    Activation(KernelHandle<ActivationForwardParams> forward, KernelHandle<ActivationBackwardParams> backward,
               Saves saves, computation::Function function, float slope = 0)
        : forward_(forward), backward_(backward), saves_(saves), function_(function), slope_(slope) {}

    Shape output(std::span<const Shape> in) const override { return in[0]; }
    Computation computation(std::span<const Shape>) const override {
        return computation::Activation{function_, slope_};
    }

    TensorId forward(LayerPlan& plan) const override {
        const TensorId y = plan.make_output();
        plan.keep("saved", saves_ == Saves::output ? y : plan.input());
        const unsigned count = unsigned(plan.out_elements());
        plan.add("forward", forward_, {.x = plan.input(), .y = y, .count = count, .slope = slope_});
        return y;
    }

    std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const override {
        if (!plan.wants()) return {TensorId()};
        const TensorId dx = plan.make_gradient();
        const unsigned count = unsigned(plan.out_elements());
        plan.add("backward", backward_,
                 {.saved = plan.kept("saved"), .dy = dy, .dx = dx, .count = count, .slope = slope_});
        return {dx};
    }

private:
    KernelHandle<ActivationForwardParams> forward_;
    KernelHandle<ActivationBackwardParams> backward_;
    Saves saves_;
    computation::Function function_;
    float slope_;
};

} // namespace towers
