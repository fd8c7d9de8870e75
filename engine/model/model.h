// A network: a graph of named layers, their shapes, and the variables to train.
#pragma once

#include "engine/layers/layer.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace towers {

/// The most examples of one tower in a step.
constexpr unsigned most_batch = 1u << 20;

struct Node {
    std::string name;
    std::string kind;        ///< as recipes call it
    std::vector<int> inputs; ///< earlier nodes; -1: the images
    std::shared_ptr<const Layer> layer;
    Shape output;
};

/// Each class's weight is the training examples / (classes * examples of it), as scikit-learn's "balanced";
/// of a sigmoid head, the examples without it / those with it.
struct BalancedClasses {};

/// What an example of each class counts for in a loss, and each class's part of a smoothed target: nothing,
/// if all count alike; or a list, in the order of the logits; or by the names of the data's classes. Each
/// weight is positive.
using ClassWeights =
    std::variant<std::monostate, BalancedClasses, std::vector<double>, std::map<std::string, double>>;

/// What makes a loss of an example's logits.
enum class LossKind {
    softmax, ///< cross entropy with the softmax over the classes, of which an example has one
    sigmoid, ///< mean over the classes of binary cross entropy with the sigmoid; an example may have several
};

/// What recipes call LossHead::class_weights.
constexpr const char* weights_key(LossKind kind) {
    return kind == LossKind::softmax ? "class_weights" : "positive_weights";
}

/// A cross entropy as a weighted part of the loss.
struct LossHead {
    int node = 0; ///< the node whose output is the logits
    LossKind kind = LossKind::softmax;
    float weight = 1; ///< factor of the cross entropy's mean over the batch
    /// With them, a softmax head's mean is sum of weight * loss / sum of weights. Of a sigmoid head: what the
    /// examples of each class count for in its part of the loss, beside the others, which count 1.
    ClassWeights class_weights = {};
    std::string place = {}; ///< of class_weights in the recipe, for messages
    float smoothing = 0;    ///< the target is one-hot * (1 - smoothing) + smoothing / classes
    float logit_scale = 1;  ///< factor of the logits

    bool is_weighted() const { return !std::holds_alternative<std::monostate>(class_weights); }
};

struct Model {
    Shape input;
    unsigned classes = 0;        ///< number of logits
    unsigned label_offset = 0;   ///< class of the data's first label: 1 leaves class 0 for the background
    std::vector<Node> nodes;     ///< in an order in which each node follows its inputs
    std::vector<LossHead> heads; ///< evaluation uses the first
    std::set<std::string> frozen = {}; ///< full names of the variables that training leaves as they are

    /// The shapes of a node's inputs.
    std::vector<Shape> input_shapes(const Node& node) const;
    /// All variables with their full names, node by node, in each layer's own order.
    std::vector<Variable> variables() const;
    /// The part that evaluation needs: the first head, without class weights, and the nodes that it depends
    /// on.
    Model for_evaluation() const;
    /// The heads with class weights.
    std::size_t weighted_heads() const;
    /// Shares and micro-batches are multiples of this: 1, or the least common multiple of batch norm's
    /// groups.
    unsigned group() const;
    /// The first node whose layer needs the whole global batch at once, which rules out micro-batches; or
    /// null.
    const Node* joining_layer() const;
};

} // namespace towers
