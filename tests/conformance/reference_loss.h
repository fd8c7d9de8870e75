// What the loss of a classifier's head should be; see reference.h.
#pragma once

#include "tests/conformance/reference.h"

namespace towers::reference {

struct Head {
    double smoothing, logit_scale, weight;
    uint label_offset;
    Values class_weights = {}; ///< by class; none: 1
};

/// -weight * the sum over classes of class weight * target * log(softmax(logit_scale * logits)), where the
/// target is 1 - smoothing for label + label_offset and smoothing / classes more for every class; its
/// gradient by the logits. Right is the class that scores as high as any, before scaling.
CrossEntropy head_loss(const Head& head, const Values& logits, const Words& labels);

/// The losses of targets[rows, stride], of which a row's first numbers count; their gradients by the logits.
/// No `correct`. With t = target * (1 - smoothing) + smoothing / classes and z = logit_scale * logits: weight
/// * -sum of class weight * t * log(softmax(z));
CrossEntropy soft_cross_entropy(const Head& head, const Values& logits, const Values& targets,
                                std::size_t rows);
/// weight * -mean of class weight * t * log(sigmoid(z)) + (1 - t) * log(sigmoid(-z)).
CrossEntropy sigmoid_cross_entropy(const Head& head, const Values& logits, const Values& targets,
                                   std::size_t rows);

} // namespace towers::reference
