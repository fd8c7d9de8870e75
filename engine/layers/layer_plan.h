// What a layer uses to plan its part of a step.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/shape.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace towers {

class LayerPlan {
public:
    /// What the network tells the layer.
    struct Surroundings {
        Plan* plan;
        std::string name;                   ///< of the layer
        std::vector<std::string> gradients; ///< names of the inputs' gradients
        std::vector<Shape> in;
        Shape out;
        unsigned batch;        ///< examples on this tower
        unsigned global_batch; ///< examples on all towers
        bool training;
        unsigned node;              ///< the layer's place in the model
        std::uint64_t seed;         ///< for the layer's random numbers
        TensorId examples;          ///< (record, epoch) of each example: uint32 [batch, 2]
        std::vector<TensorId> from; ///< the inputs
        std::vector<bool> wants;    ///< which inputs want a gradient
        /// The slice of this arena that belongs to the variable with this full name.
        std::function<TensorId(const std::string& name, Arena arena)> variable;
    };
    explicit LayerPlan(Surroundings surroundings) : around_(std::move(surroundings)) {}

    unsigned batch() const { return around_.batch; }
    unsigned global_batch() const { return around_.global_batch; }
    /// False for an evaluation, which has no backward pass.
    bool training() const { return around_.training; }
    unsigned node() const { return around_.node; }
    std::uint64_t seed() const { return around_.seed; }
    TensorId examples() const { return around_.examples; }

    std::size_t inputs() const { return around_.in.size(); }
    const Shape& in(std::size_t index = 0) const { return around_.in[index]; }
    const Shape& out() const { return around_.out; }
    std::size_t out_elements() const { return around_.out.elements() * around_.batch; }
    TensorId input(std::size_t index = 0) const { return around_.from[index]; }
    /// A new tensor for the output, [batch, height, width, channels].
    TensorId make_output();

    /// The layer's variable with this name, such as `weights`, and the tensor for its gradient. A statistic's
    /// gradient is this tower's part of its value in the step; the towers' parts add up.
    TensorId variable(const std::string& name) const;
    TensorId gradient(const std::string& name) const;

    /// Whether backward must compute this input's gradient.
    bool wants(std::size_t index = 0) const { return around_.wants[index]; }
    /// A new tensor for an input's gradient.
    TensorId make_gradient(std::size_t index = 0);

    /// A new tensor of the layer, named after its role.
    TensorId make(const std::string& role, TensorShape shape, ElementType type = ElementType::float32);
    /// Has the host merge two lists of every tower and returns the result; returns `given` if there is only
    /// one tower. `values`: how many values of this tower each element summarizes.
    TensorPair exchange(const std::string& role, const TensorPair& given, Merge merge, double values);
    /// Keeps a tensor of forward for backward.
    void keep(const std::string& role, TensorId tensor) { kept_[role] = tensor; }
    TensorId kept(const std::string& role) const { return kept_.at(role); }

    /// `role` says which part of the layer's work it is: `forward`, `weights gradient`.
    template<class Params>
    void add(const std::string& role, KernelHandle<Params> kernel,
             const std::type_identity_t<Params>& params) {
        around_.plan->add(around_.name + ' ' + role, kernel, params);
    }
    TensorShape shape_of(const Shape& shape) const {
        return {around_.batch, shape.height, shape.width, shape.channels};
    }

private:
    Surroundings around_;
    std::map<std::string, TensorId> kept_;
};

} // namespace towers
