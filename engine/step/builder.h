// Plans what a network does with a batch of examples.
#pragma once

#include "engine/layers/layer_plan.h"
#include "engine/step/images.h"
#include "engine/step/network.h"

#include <span>
#include <string>
#include <vector>

namespace towers {

/// What the network's heads make of their logits, the first head's first.
struct HeadLosses {
    std::vector<TensorId> losses;  ///< [batch], reserved one after the other
    std::vector<TensorId> dlogits; ///< [batch, classes]
    TensorId correct;              ///< the first head's: uint32 [batch]
};

/// Adds a network's operations to a plan, in this order: outputs(), which needs no labels; losses();
/// backward().
class Builder {
public:
    /// `gradients`: the arena where backward leaves the variables' gradients, and a step the statistics'
    /// values. Throws std::logic_error when a batch to train on is no whole number of the model's groups.
    Builder(Plan& plan, const NetworkSpec& spec, bool training, Arena gradients = Arena::gradients);

    /// The logits of each head for these images. `examples` go to the layers that draw random numbers.
    std::vector<TensorId> outputs(TensorId images, TensorId examples);
    /// `labels`: uint32 [batch]. `arena`: where the losses' words lie.
    HeadLosses losses(std::span<const TensorId> logits, TensorId labels, Arena arena = Arena::results);
    /// From the heads' `dlogits` to the gradients of the variables.
    void backward(std::span<const TensorId> dlogits);

private:
    bool learns(int node) const { return node >= 0 && learns_[std::size_t(node)]; }
    LayerPlan::Surroundings surroundings_of(std::size_t index, TensorId images, TensorId examples);
    TensorId sum_of_gradients(std::size_t index);
    TensorId variable(const std::string& name, Arena arena);

    Plan& plan_;
    const NetworkSpec& spec_;
    const Model& model_;
    bool training_;
    Arena gradient_arena_;
    std::vector<LayerPlan> layers_;
    std::vector<TensorId> outputs_; ///< of each node
    std::vector<bool> learns_;      ///< whether the node or one before it has trained variables
    std::vector<std::vector<TensorId>> gradients_; ///< of each node's output, one from each reader
};

/// The images and labels that the spec's data pipeline makes of examples.
BatchTensors plan_batch(Plan& plan, const NetworkSpec& spec, TensorId examples);

/// Forward and backward for examples, with gradients and losses in these arenas. Returns each head's losses.
std::vector<TensorId> plan_pass(Plan& plan, const NetworkSpec& spec, TensorId examples, Arena gradients,
                                Arena losses);

/// The mean over the global batch of the losses of all heads, as far as these are of this tower's examples.
LossList loss_list(Plan& plan, const NetworkSpec& spec, std::span<const TensorId> losses);

/// Fuses and places what has been planned: the last call for a plan.
void finish(Plan& plan, const NetworkSpec& spec);

} // namespace towers
