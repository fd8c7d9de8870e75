// From logits to the loss
#ifndef TOWERS_SHADERS_PARAMS_LOSS_H
#define TOWERS_SHADERS_PARAMS_LOSS_H

// Each row, with probability = softmax(logit_scale * logits) and target = onehot(labels + label_offset) * (1
// - smoothing) + smoothing / classes: losses = weight * -sum of target * log(probability); dlogits = weight *
// logit_scale * scale * (probability - target), the gradient by the unscaled logits; correct = no class
// scores higher than the label's (in_top_k with k = 1). logit_scale > 0. Every label + label_offset is less
// than `classes`; the data may have fewer classes. smoothing 0, logit_scale 1, weight 1 and label_offset 0
// give the plain cross entropy.
struct SoftmaxCrossEntropyParams {
    In_f32 logits;
    In_u32 labels;
    Out_f32 dlogits, losses;
    Out_u32 correct;
    uint rows, classes;
    float scale, smoothing, logit_scale, weight;
    uint label_offset;
};

#endif
