// The interface of a layer. Each kind is one file in this folder and one line in layers.def; no other code
// lists the kinds.
#pragma once

#include "engine/config/attributes.h"
#include "engine/layers/computation.h"
#include "engine/layers/layer_plan.h"
#include "engine/plan/shape.h"
#include "engine/plan/variable.h"

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace towers {

/// A layer does not fit its inputs. The message says what is wrong and what would be right; the code that
/// catches it adds file, line and layer.
class LayerError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Returns an output's number of channels, or throws LayerError if devices cannot count so many.
unsigned checked_channels(std::uint64_t channels);

/// A layer's attributes. It belongs to no model, holds no tensors, and never changes once made.
class Layer {
public:
    virtual ~Layer() = default;

    /// The least and the largest number of inputs.
    struct Arity {
        std::size_t least = 1, most = 1;
    };
    virtual Arity arity() const { return {}; }

    /// Throws LayerError when the inputs do not fit.
    virtual Shape output(std::span<const Shape> inputs) const = 0;

    /// What it computes of these inputs in an evaluation.
    virtual Computation computation(std::span<const Shape> inputs) const = 0;

    /// The layer's variables, in the order in which backward finishes their gradients. Names lack the
    /// layer's: `weights`.
    virtual std::vector<Variable> variables(std::span<const Shape> inputs) const;

    /// Floating-point operations of the matrix products in one example's forward pass; a multiply-add counts
    /// as two. Backward needs as many for the weights' gradients, and as many again for the input's gradient
    /// if an earlier layer learns.
    virtual double flop(std::span<const Shape> inputs) const;

    /// How many consecutive examples share statistics; 1: none, each example is independent; 0: the whole
    /// step.
    virtual unsigned group() const { return 1; }

    /// Adds the operations that compute the output, and returns the output, which may be an input.
    virtual TensorId forward(LayerPlan& plan) const = 0;

    /// Adds the operations that compute, from the output's gradient `dy`, the gradients of the variables that
    /// change. Returns each input's gradient, or no tensor for an input that wants none. May return `dy`
    /// itself, but never writes to it.
    virtual std::vector<TensorId> backward(LayerPlan& plan, TensorId dy) const = 0;
};

/// Reads the attributes of a layer of this kind; the caller checks for unread ones. Throws UsageError when
/// the kind is unknown, or an attribute is missing or wrong.
std::unique_ptr<const Layer> make_layer(const std::string& kind, Attributes& attributes);

/// The names in layers.def, and each one's family.
std::vector<std::string> layer_kinds();
enum class LayerFamily { activation, normalization, elementwise, other };
LayerFamily family_of(const std::string& kind);
/// The kinds that the key `activation` accepts.
std::vector<std::string> activation_kinds();

} // namespace towers
