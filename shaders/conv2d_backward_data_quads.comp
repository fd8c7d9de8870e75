#include "kernel.h"

#include "conv2d_backward_data_product.h"

#include "gemm_quads.h"

KERNEL(conv2d_backward_data_quads, Conv2dBackwardDataParams, THREADS) { PRODUCTS }
