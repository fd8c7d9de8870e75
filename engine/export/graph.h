// A trained network as it leaves for other programs: what it computes in an evaluation, as plain data that
// all exporters share.
#pragma once

#include "engine/plan/state.h"
#include "engine/recipes/recipe.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace towers {

/// What a picture, planes of bytes 0 to 255, becomes before the network sees it: the evaluation's part of the
/// recipe's pipeline. First the box is cut out, then resized to the network's size if it has another one
/// (bilinear between pixels' centres, without antialiasing). Then either the whole image is standardized:
/// (x - mean) / max(standard deviation, least_deviation); or each channel becomes (x - centre) * scale.
struct Preparation {
    ImageSize picture;
    unsigned top = 0, left = 0, height = 0, width = 0; ///< the box
    bool standardizes = false;
    float least_deviation = 0;
    std::array<float, 3> centre{}, scale{1, 1, 1};

    bool crops() const { return height != picture.height || width != picture.width; }
    bool shifts() const { return centre != std::array<float, 3>{}; }
    bool scales() const { return scale != std::array<float, 3>{1, 1, 1}; }
};

struct GraphLayer {
    std::string name, kind;
    std::vector<int> inputs; ///< earlier layers; -1: the image
    std::vector<Shape> in;
    Shape out;
    Computation computation;
};

struct GraphVariable {
    std::string name; ///< `conv1/weights`
    TensorShape shape;
    std::span<const float> values;
};

struct InferenceGraph {
    std::string recipe, description;
    Preparation preparation;
    Shape input;                       ///< of the network
    std::vector<GraphLayer> layers;    ///< each after its inputs; only those on which the logits depend
    std::size_t logits = 0;            ///< the layer
    float logit_scale = 1;             ///< the logits are that layer's output times this
    LossKind kind = LossKind::softmax; ///< which makes probabilities of the logits
    unsigned classes = 0, label_offset = 0;
    std::vector<double> thresholds;       ///< of sigmoids: from which probability on a picture has each class
    std::vector<GraphVariable> variables; ///< those of `layers`, statistics included
    std::vector<std::pair<std::string, std::string>> facts; ///< where the model is from: key and value

    bool has(const std::string& variable) const;
    const GraphVariable& variable(const std::string& name) const; ///< std::logic_error if there is none
};

/// Which pictures a model takes.
struct PictureSize {
    /// Of a data set, as the recipe's pipeline crops and resizes them; absent: of the size at which the
    /// recipe has pictures stored.
    std::optional<std::array<unsigned, 2>> size; ///< height, width
    bool prepared = false;                       ///< of the network's size, so that only their values change
};

/// `variables`: laid out as `layout` says, and must outlive the graph. Throws UsageError if the evaluation's
/// pipeline does not fit such pictures, or changes them at random.
InferenceGraph inference_graph(const Recipe& recipe, const StateLayout& layout,
                               std::span<const float> variables, const PictureSize& pictures);

} // namespace towers
