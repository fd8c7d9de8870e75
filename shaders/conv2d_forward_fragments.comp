#include "kernel.h"

#include "conv2d_forward_product.h"

#include "gemm_fragments.h"

KERNEL(conv2d_forward_fragments, Conv2dForwardParams, THREADS) { PRODUCTS }
