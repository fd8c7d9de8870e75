#include "kernel.h"

#include "conv2d_forward_product.h"

#include "gemm_quads.h"

KERNEL(conv2d_forward_quads, Conv2dForwardParams, THREADS) { PRODUCTS }
