#include "kernel.h"

#include "conv2d_backward_data_product.h"

#include "gemm_fragments.h"

KERNEL(conv2d_backward_data_fragments, Conv2dBackwardDataParams, THREADS) { PRODUCTS }
