// From logits to the loss
#ifndef TOWERS_SHADERS_PARAMS_LOSS_H
#define TOWERS_SHADERS_PARAMS_LOSS_H

// Each row: losses = -log softmax(logits)[label]; dlogits = (softmax - onehot) * scale;
// correct = no class scores higher than the label's (in_top_k with k = 1)
struct SoftmaxCrossEntropyParams {
    In_f32 logits;
    In_u32 labels;
    Out_f32 dlogits, losses;
    Out_u32 correct;
    uint rows, classes;
    float scale;
};

#endif
