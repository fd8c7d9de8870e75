// Convolutions of few channels as matrix products whose matrix of patches is never stored: an image's rows
// are copied between zeros, and there the window's pixels of a row lie side by side, so that a row of the
// matrix is one run of floats for each row of the window. oneDNN has no such product for few channels: conv1
// of the tutorial (3 to 64 channels, 5x5) reached half the rate of its conv2.
//
// This header joins the code that plans a pass (implicit_gemm.cpp) to the code that computes it, which is
// compiled once for each processor level (implicit_gemm_kernels.h).
#pragma once

#include <cstddef>

namespace towers {

/// A convolution without dilation and groups; out_channels is a multiple of implicit_gemm_columns.
struct ImplicitGemmShape {
    std::size_t in_height, in_width, in_channels, out_height, out_width, out_channels;
    std::size_t kernel_height, kernel_width, stride_y, stride_x;
    std::size_t pad_top, pad_left;

    std::size_t run() const { return kernel_width * in_channels; }
    std::size_t depth() const { return kernel_height * run(); }
    std::size_t padded_row() const { return ((out_width - 1) * stride_x + kernel_width) * in_channels; }
    /// Rows of the output that are computed at once, so that a product is deep enough and stays in the cache
    std::size_t rows_at_once() const {
        const std::size_t rows = (96 + out_width - 1) / out_width;
        return rows < out_height ? rows : out_height;
    }
    /// Scratch memory for the padded input of so many rows, in floats
    std::size_t scratch() const { return ((rows_at_once() - 1) * stride_y + kernel_height) * padded_row(); }
};

constexpr std::size_t implicit_gemm_columns = 16; ///< a whole number of vectors at each level

struct ImplicitGemmForward {
    ImplicitGemmShape shape;
    const float *x, *w; ///< w: HWIO
    float* y;
    const float* bias; ///< [out_channels], or null
    bool relu;
};

struct ImplicitGemmGradient {
    ImplicitGemmShape shape;
    const float *x, *dy;
    float *dw, *db; ///< the images' parts are added to these; db: or null
};

/// What one processor level computes for images [first, end).
struct ImplicitGemmCode {
    void (*forward)(const ImplicitGemmForward& p, std::size_t first, std::size_t end, float* scratch);
    void (*gradient)(const ImplicitGemmGradient& p, std::size_t first, std::size_t end, float* scratch);
};

} // namespace towers
