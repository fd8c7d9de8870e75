// What the steps of a recipe need of each global batch: who is mixed with whom, targets, weights of classes.
#pragma once

#include "engine/data/batch.h"
#include "engine/data/source.h"
#include "engine/recipes/recipe.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// The weights of a head's classes, which has some: by class, as the logits are ordered. What is no class of
/// the data has the weight 1. Throws InputError, which names the place in the recipe, for names of other
/// classes than the data's, and for "balanced" if a class has no examples, or of a sigmoid head all.
std::vector<double> class_weights_of(const LossHead& head, const Model& model, const DataSource& data);

/// Makes the tables of batches. Every tower and every rank makes the same ones of the same global batch, so
/// nobody has to exchange a sum of weights, or to ask for a partner.
class TableMaker {
public:
    /// `data`: the training data. `mixes`: false leaves every image as it is. Throws as check_data(),
    /// check_labels() and class_weights_of().
    TableMaker(const Recipe& recipe, const DataSource& data, std::uint64_t seed, bool mixes);

    bool mixes() const { return mixing_.mixes(); } ///< whether batches have mixes

    std::size_t bytes(std::size_t examples) const; ///< of the tables that grow with the examples

    /// Of a global batch with labels. A softmax head's weights are divided by their mean over the examples'
    /// targets, so a mean over the global batch is the weighted sum divided by the sum of the weights, as
    /// PyTorch has it for labels; a sigmoid head's stay as they are, as PyTorch's pos_weight.
    BatchTables operator()(std::uint64_t first, std::span<const Example> examples) const;

private:
    struct WeightedHead {
        LossKind kind;
        std::vector<double> weights; ///< [classes]
    };
    std::vector<float> targets(std::span<const Example> examples, std::span<const Mix> mixes) const;
    std::vector<float> class_weights(std::span<const Example> examples, std::span<const float> targets) const;

    Shape image_;
    unsigned classes_, label_offset_;
    Mixing mixing_;
    std::uint64_t seed_;
    bool takes_targets_;
    std::shared_ptr<const LabelSets> label_sets_; ///< see DataSource
    std::vector<WeightedHead> heads_;
};

} // namespace towers
