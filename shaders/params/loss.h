// From logits to the loss
#ifndef TOWERS_SHADERS_PARAMS_LOSS_H
#define TOWERS_SHADERS_PARAMS_LOSS_H

// Each row, with probability = softmax(logit_scale * logits) and target = onehot(labels + label_offset) * (1
// - smoothing) + smoothing / classes, times class_weights[classes] if `weighted`: losses = weight * -sum of
// target * log(probability); dlogits = weight * logit_scale * scale * (probability * sum of target - target),
// the gradient by the unscaled logits; correct = no class scores higher than the label's (in_top_k with k =
// 1). logit_scale > 0. Every label + label_offset is less than `classes`; the data may have fewer classes.
// smoothing 0, logit_scale 1, weight 1, label_offset 0 and weighted 0 give the plain cross entropy. Weights
// of 1 give the bits of weighted 0, where class_weights is any tensor of at least as many numbers.
struct SoftmaxCrossEntropyParams {
    In_f32 logits;
    In_u32 labels;
    In_f32 class_weights;
    Out_f32 dlogits, losses;
    Out_u32 correct;
    uint rows, classes;
    float scale, smoothing, logit_scale, weight;
    uint label_offset, weighted;
};

// The losses of targets: what part of each class an example is, targets[rows, stride], of which the first
// `classes` numbers count. With t = target * (1 - smoothing) + smoothing / classes and z = logit_scale *
// logits:
//   - soft_cross_entropy: each row's targets add up to 1. losses = weight * -sum of w * t * log(softmax(z)),
//   with w of
//     class_weights[classes] if `weighted`, else 1, as softmax_cross_entropy, which has all of one class;
//   - sigmoid_cross_entropy: targets from 0 to 1. losses = weight * the mean over the classes of
//     -(w * t * log(sigmoid(z)) + (1 - t) * log(sigmoid(-z))).
// dlogits = scale * the gradient of losses by the unscaled logits. A row with a score that is not finite has
// no finite loss and gradient. Without `weighted`, class_weights is any tensor of at least as many numbers.
struct TargetCrossEntropyParams {
    In_f32 logits, targets, class_weights;
    Out_f32 dlogits, losses;
    uint rows, classes, stride;
    float scale, smoothing, logit_scale, weight;
    uint weighted;
};

#endif
