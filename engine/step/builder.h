// Plans a network's work on a batch of examples.
#pragma once

#include "engine/layers/layer_plan.h"
#include "engine/step/images.h"

#include <span>
#include <string>
#include <vector>

namespace towers {

/// The results of the network's heads, in their order.
struct HeadLosses {
    std::vector<TensorId> losses;  ///< [batch] each, reserved one after another
    std::vector<TensorId> dlogits; ///< [batch, classes]
};

/// Adds a network's operations to a plan, in this order: outputs(), which needs no labels; losses();
/// backward().
class Builder {
public:
    /// `gradients`: the arena for the variables' gradients and the step's statistics. Throws std::logic_error
    /// if a training batch is not whole groups of the model.
    Builder(Plan& plan, const NetworkSpec& spec, bool training, Arena gradients = Arena::gradients);

    /// Returns each head's logits for these images. `examples` are for layers that draw random numbers.
    std::vector<TensorId> outputs(TensorId images, TensorId examples);
    /// A node's output, after outputs().
    TensorId output(std::size_t node) const { return outputs_[node]; }
    /// `labels`: uint32 [batch]. `targets`: instead, [batch, class_stride()]; a sigmoid head needs them.
    /// `arena`: for the losses.
    HeadLosses losses(std::span<const TensorId> logits, TensorId labels, TensorId targets,
                      Arena arena = Arena::results);
    /// Computes the variables' gradients from the heads' `dlogits`; with NetworkSpec::scales_loss all of them
    /// have the step's loss scale as a factor.
    void backward(std::span<const TensorId> dlogits);

private:
    bool learns(int node) const { return node >= 0 && learns_[std::size_t(node)]; }
    LayerPlan layer_plan(std::size_t index, TensorId images, TensorId examples);
    TensorId scaled(TensorId dlogits);
    TensorId sum_of_gradients(std::size_t index);
    TensorId variable(const std::string& name, Arena arena);

    Plan& plan_;
    const NetworkSpec& spec_;
    const Model& model_;
    bool training_;
    Arena gradient_arena_;
    std::vector<LayerPlan> layers_;
    std::vector<TensorId> outputs_;                ///< by node
    std::vector<bool> learns_;                     ///< by node: it or an earlier one has variables that learn
    std::vector<std::vector<TensorId>> gradients_; ///< by node: gradients of its output, one from each reader
};

/// What a training step takes of a Batch; only the examples are always needed.
struct StepTensors {
    TensorId examples; ///< uint32 [examples_to_make(), example_words]
    TensorId mixes;    ///< uint32 [batch, mix_words]
    TensorId targets;  ///< [batch, class_stride()]
};
bool takes_targets(const NetworkSpec& spec);
StepInputs step_inputs(const NetworkSpec& spec); ///< of the whole share

/// Plans forward and backward for examples, with gradients and losses in these arenas. Returns each head's
/// losses.
std::vector<TensorId> plan_pass(Plan& plan, const NetworkSpec& spec, const StepTensors& inputs,
                                Arena gradients, Arena losses);

/// This tower's part of the mean of all heads' losses over the global batch.
LossList loss_list(Plan& plan, const NetworkSpec& spec, std::span<const TensorId> losses);

/// Fuses and places the operations; the last call for a plan.
void finish(Plan& plan, const NetworkSpec& spec);

} // namespace towers
