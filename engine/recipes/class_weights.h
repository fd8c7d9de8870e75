// What the classes of a global batch's examples count for in the loss.
#pragma once

#include "engine/data/example.h"
#include "engine/data/source.h"
#include "engine/model/model.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// The weights of a head's classes, which has some: by class, as the logits are ordered. What is no class of
/// the data has the weight 1. Throws InputError, which names the place in the recipe, for names of other
/// classes than the data's, and for "balanced" if a class has no examples.
std::vector<double> class_weights_of(const LossHead& head, const Model& model, const DataSource& data);

/// Gives the weights of each step, from the training data's labels. Every tower and every rank computes the
/// same ones of the same global batch, so nobody has to exchange a sum of weights.
class BatchWeights {
public:
    /// Throws as class_weights_of().
    BatchWeights(const Model& model, const DataSource& data);

    bool empty() const { return heads_.empty(); } ///< no head has class weights

    /// Of a global batch with labels: for each head with class weights, in the heads' order, the weight of
    /// each class divided by the mean weight of the examples, [class_weights_stride()]. So a mean over the
    /// global batch is the weighted sum divided by the sum of the weights.
    std::vector<float> of(std::span<const Example> batch) const;

private:
    unsigned label_offset_;
    std::vector<std::vector<double>> heads_; ///< [classes] each
};

} // namespace towers
