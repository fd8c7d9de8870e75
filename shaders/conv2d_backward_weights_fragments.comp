#include "kernel.h"

#include "conv2d_backward_weights_product.h"

#include "gemm_fragments.h"

KERNEL(conv2d_backward_weights_fragments, Conv2dBackwardWeightsParams, THREADS) { PRODUCTS }
