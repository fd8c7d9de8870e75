// What a kind of layer is: one file in this folder behind this interface, and one line in layers.def. Nothing
// else knows which kinds there are.
#pragma once

#include "engine/layers/layer_plan.h"
#include "engine/config/attributes.h"
#include "engine/plan/shape.h"
#include "engine/plan/variable.h"

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace towers {

/// A layer does not fit its inputs; the message says what is wrong and what would be right, and its reader
/// adds file, line and layer.
class LayerError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The channels of an output; LayerError when there are more than a device can count.
unsigned checked_channels(std::uint64_t channels);

/// A layer's attributes. It belongs to no model, holds no tensors, and never changes once made.
class Layer {
public:
    virtual ~Layer() = default;

    /// How many inputs it takes, both included.
    struct Arity {
        std::size_t least = 1, most = 1;
    };
    virtual Arity arity() const { return {}; }

    /// Throws LayerError when the inputs do not fit.
    virtual Shape output(std::span<const Shape> inputs) const = 0;

    /// In the order in which backward finishes them. Names without the layer's: `weights`.
    virtual std::vector<Variable> variables(std::span<const Shape> inputs) const;

    /// Multiply-adds, counted as two, of the products of one example's forward pass. Backward takes as many
    /// for the weights and, where something before learns, for the input.
    virtual double flop(std::span<const Shape> inputs) const;

    /// How many consecutive examples share what the layer computes; 1: each stands alone; 0: all of a step.
    virtual unsigned group() const { return 1; }

    /// Adds the operations that make the output, and returns it; it may be an input.
    virtual TensorId forward(LayerPlan& plan) const = 0;

    /// Given the output's gradient `dy`, adds the operations that leave the variables' gradients, and returns
    /// each input's; none for an input that wants none. May return `dy` itself, but never writes to it.
    virtual std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const = 0;
};

/// Reads the attributes of a layer of this kind; what is left unread is the caller's. UsageError when the
/// kind is unknown, an attribute is missing or wrong.
std::unique_ptr<const Layer> make_layer(const std::string& kind, Attributes& attributes);

/// The names in layers.def.
std::vector<std::string> layer_kinds();
/// Of these, the ones that `activation` takes.
std::vector<std::string> activation_kinds();

} // namespace towers
