// What a layer uses to plan its part of a step.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/shape.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace towers {

struct LayerPlan {
    // What the network tells the layer.
    Plan* plan;
    std::string name;                   ///< of the layer
    std::vector<std::string> gradients; ///< names of the inputs' gradients
    std::vector<Shape> shapes;          ///< of the inputs
    Shape out;
    unsigned batch;             ///< examples on this tower
    unsigned global_batch;      ///< examples on all towers
    bool training;              ///< false for an evaluation, which has no backward pass
    unsigned node;              ///< the layer's place in the model
    std::uint64_t seed;         ///< for the layer's random numbers
    TensorId examples;          ///< uint32 [batch, example_words]
    std::vector<TensorId> from; ///< the inputs
    std::vector<bool> wanted;   ///< which inputs want a gradient
    /// The slice of this arena that belongs to the variable with this full name.
    std::function<TensorId(const std::string& name, Arena arena)> slice_of;
    const std::set<std::string>* frozen; ///< full names of the variables that stay as they are
    std::map<std::string, TensorId> kept_for_backward = {};

    std::size_t inputs() const { return shapes.size(); }
    const Shape& in(std::size_t index = 0) const { return shapes[index]; }
    std::size_t out_elements() const { return out.elements() * batch; }
    unsigned out_pixels() const { return batch * out.height * out.width; }
    TensorId input(std::size_t index = 0) const { return from[index]; }
    /// A new tensor for the output, [batch, height, width, channels].
    TensorId make_output() { return plan->activation(name, shape_of(out)); }

    /// The layer's variable with this name, such as `weights`, and the tensor for its gradient. A statistic's
    /// gradient is this tower's part of its value in the step; the towers' parts add up.
    TensorId variable(const std::string& its) const { return slice_of(name + '/' + its, Arena::state); }
    TensorId gradient(const std::string& its) const { return slice_of(name + '/' + its, Arena::gradients); }

    /// Whether training changes this variable of the layer, so that backward must compute its gradient, or
    /// forward the statistic's value in the step.
    bool changes(const std::string& its) const { return !frozen->contains(name + '/' + its); }

    /// Whether backward must compute this input's gradient.
    bool wants(std::size_t index = 0) const { return wanted[index]; }
    /// A new tensor for an input's gradient.
    TensorId make_gradient(std::size_t index = 0) {
        return plan->activation(gradients[index], shape_of(shapes[index]));
    }

    /// A new tensor of the layer, named after its role.
    TensorId make(const std::string& role, TensorShape shape, ElementType type = ElementType::float32) {
        return plan->activation(name + ' ' + role, std::move(shape), type);
    }
    /// Has the host merge two lists of every tower and returns the result; returns `given` if there is only
    /// one tower. `values`: how many values of this tower each element summarizes.
    TensorPair exchange(const std::string& role, const TensorPair& given, Merge merge, double values) {
        return batch == global_batch ? given : plan->exchange(name + ' ' + role, given, merge, values);
    }
    /// Keeps a tensor of forward for backward.
    void keep(const std::string& role, TensorId tensor) { kept_for_backward[role] = tensor; }
    TensorId kept(const std::string& role) const { return kept_for_backward.at(role); }

    /// `role` says which part of the layer's work it is: `forward`, `weights gradient`.
    template<class Params>
    void add(const std::string& role, KernelHandle<Params> kernel,
             const std::type_identity_t<Params>& params) {
        plan->add(name + ' ' + role, kernel, params);
    }
    TensorShape shape_of(const Shape& shape) const {
        return {batch, shape.height, shape.width, shape.channels};
    }
};

} // namespace towers
