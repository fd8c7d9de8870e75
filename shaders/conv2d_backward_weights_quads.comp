#include "kernel.h"

#include "conv2d_backward_weights_product.h"

#include "gemm_quads.h"

KERNEL(conv2d_backward_weights_quads, Conv2dBackwardWeightsParams, THREADS) { PRODUCTS }
