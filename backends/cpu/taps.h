// A convolution as matrix products, one per tap of its window.
#pragma once

#include "shaders/params.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <dnnl.h>
#include <dnnl.hpp>
#include <vector>

namespace towers {

/// The pixels that a tap uses on one side, input or output.
struct Pixels {
    std::size_t height, width; ///< of the image
    std::size_t top, left, step_y, step_x, rows, columns;

    std::size_t count() const { return rows * columns; }
    std::size_t in_image() const { return height * width; }
    bool all() const { return count() == in_image(); }

    template<class F>
    void for_each(std::size_t image, std::size_t images, F pixel) const {
        for (std::size_t n = image; n < image + images; ++n)
            for (std::size_t y = 0; y < rows; ++y)
                for (std::size_t x = 0; x < columns; ++x)
                    pixel((n * height + top + y * step_y) * width + left + x * step_x);
    }
};

/// A tap: a place in the window, and the input and output pixels that its weights connect.
struct Tap {
    Pixels in, out;
    std::size_t weights; ///< offset of its matrix
};

/// Along one axis, for the tap `k` pixels after the window's first: the outputs that have an input there, and
/// the first such input.
struct Span {
    std::size_t out, in, count;
};

inline Span span(std::size_t k, std::size_t in, std::size_t out, std::size_t stride, std::size_t pad) {
    const std::size_t first = k < pad ? (pad - k + stride - 1) / stride : 0;
    const std::size_t end = in + pad > k ? std::min(out, (in + pad - k + stride - 1) / stride) : 0;
    if (end <= first) return {0, 0, 0};
    return {first, first * stride + k - pad, end - first};
}

inline std::vector<Tap> taps_of(const ConvShape& s) {
    std::vector<Tap> taps;
    for (std::size_t ky = 0; ky < s.kernel_height; ++ky)
        for (std::size_t kx = 0; kx < s.kernel_width; ++kx) {
            const Span y =
                span(std::size_t(ky) * s.dilation_y, s.in_height, s.out_height, s.stride_y, s.pad_top);
            const Span x =
                span(std::size_t(kx) * s.dilation_x, s.in_width, s.out_width, s.stride_x, s.pad_left);
            taps.push_back({{s.in_height, s.in_width, y.in, x.in, s.stride_y, s.stride_x, y.count, x.count},
                            {s.out_height, s.out_width, y.out, x.out, 1, 1, y.count, x.count},
                            taps.size() * s.in_channels * s.out_channels});
        }
    return taps;
}

/// A row-major matrix or a part of one; rows are `stride` floats apart.
template<class T>
struct Matrix {
    T* at;
    std::size_t stride;
};

/// TapProducts with one thread each: oneDNN uses a single thread inside a parallel region.
class TapProducts {
public:
    /// c = (add ? c : 0) + a b, where c is [m, n]; a and b may be transposed.
    void multiply(bool a_transposed, bool b_transposed, std::size_t m, std::size_t n, std::size_t k,
                  Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c) {
        const dnnl_status_t status =
            dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', dnnl_dim_t(m), dnnl_dim_t(n),
                       dnnl_dim_t(k), 1.0f, a.at, dnnl_dim_t(a.stride), b.at, dnnl_dim_t(b.stride),
                       add ? 1.0f : 0.0f, c.at, dnnl_dim_t(c.stride));
        if (status != dnnl_success) status_ = status; // no exception may leave a parallel region
    }
    void require_success() const {
        if (status_ != dnnl_success) throw dnnl::error(status_, "could not multiply matrices");
    }

private:
    std::atomic<dnnl_status_t> status_ = dnnl_success;
};

/// Copies `channels` channels of each pixel into consecutive rows. `tensor` points to the first wanted
/// channel.
inline Matrix<const float> gathered(const Pixels& pixels, std::size_t image, std::size_t images,
                                    Matrix<const float> tensor, std::size_t channels, float* scratch) {
    if (pixels.all()) return {tensor.at + image * pixels.in_image() * tensor.stride, tensor.stride};
    float* next = scratch;
    pixels.for_each(image, images, [&](std::size_t pixel) {
        std::memcpy(next, tensor.at + pixel * tensor.stride, channels * sizeof(float));
        next += channels;
    });
    return {scratch, channels};
}

} // namespace towers
