// What a network is: a graph of named layers, the shapes that follow, and the variables to train.
#pragma once

#include "engine/layers/layer.h"

#include <memory>
#include <string>
#include <vector>

namespace towers {

/// Examples of a tower's step.
constexpr unsigned most_batch = 1u << 20;

struct Node {
    std::string name;
    std::string kind;        ///< as recipes call it
    std::vector<int> inputs; ///< earlier nodes; -1: the images
    std::shared_ptr<const Layer> layer;
    Shape output;
};

/// A softmax cross entropy with its part in the loss.
struct LossHead {
    int node = 0;          ///< whose output is the logits
    float weight = 1;      ///< of its mean over the batch
    float smoothing = 0;   ///< the target is one-hot * (1 - smoothing) + smoothing / classes
    float logit_scale = 1; ///< the logits are multiplied by it first
};

struct Model {
    std::string name;
    Shape input;
    unsigned classes = 0;        ///< that the logits tell apart
    unsigned label_offset = 0;   ///< class of the data's first label: 1 leaves class 0 for the background
    std::vector<Node> nodes;     ///< each after its inputs
    std::vector<LossHead> heads; ///< the first is what evaluation looks at

    /// The shapes that a node's layer takes.
    std::vector<Shape> input_shapes(const Node& node) const;
    /// In the nodes' order, each node's in its layer's, with whole names.
    std::vector<Variable> variables() const;
    /// What evaluation needs: the nodes that the first head depends on, and no other head.
    Model for_evaluation() const;
    /// The unit in which examples are dealt to towers: 1, or what batch norm's groups need.
    unsigned group() const;
    /// The first node whose layer takes the whole global batch, which cannot be done in pieces; or null.
    const Node* joining_layer() const;
};

} // namespace towers
