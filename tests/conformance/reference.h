// What the kernels should compute, in double precision and as plainly as possible. Written from the formulas,
// independently of the kernels; only the parameter blocks that describe the shapes are theirs.
#pragma once

#include "shaders/kernel.h"

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace towers::reference {

using Values = std::vector<double>;
using Words = std::vector<std::uint32_t>;

/// A window's size, how far it moves, and the padding above and left of the image. Rows come first.
struct Windows {
    std::array<uint, 2> size, stride;
};

/// Convolution and pooling windows as TensorFlow's SAME places them, as its VALID does, and with as much
/// padding above, below, left and right as `pads` says.
ConvShape same_conv(uint batch, uint height, uint width, uint in, const Windows& windows, uint out,
                    uint groups = 1);
ConvShape valid_conv(uint batch, uint height, uint width, uint in, const Windows& windows, uint out,
                     uint groups = 1);
ConvShape padded_conv(uint batch, uint height, uint width, uint in, const Windows& windows,
                      const std::array<uint, 4>& pads, uint out, uint groups = 1);
/// As padded_conv(), with a window's places `dilation` apart.
ConvShape dilated_conv(uint batch, uint height, uint width, uint in, const Windows& windows,
                       const std::array<uint, 2>& dilation, const std::array<uint, 4>& pads, uint out,
                       uint groups = 1);
PoolShape same_pool(uint batch, uint height, uint width, uint channels, const Windows& windows);
PoolShape valid_pool(uint batch, uint height, uint width, uint channels, const Windows& windows);
PoolShape padded_pool(uint batch, uint height, uint width, uint channels, const Windows& windows,
                      const std::array<uint, 4>& pads);

/// The same with square strides and windows
ConvShape same_conv(uint batch, uint height, uint width, uint in, uint kernel_height, uint kernel_width,
                    uint stride, uint out);
ConvShape valid_conv(uint batch, uint height, uint width, uint in, uint kernel_height, uint kernel_width,
                     uint stride, uint out);
PoolShape same_pool(uint batch, uint height, uint width, uint channels, uint window, uint stride);
PoolShape valid_pool(uint batch, uint height, uint width, uint channels, uint window, uint stride);

/// `b` may be empty.
Values conv2d(const ConvShape& shape, const Values& x, const Values& w, const Values& b);
Values conv2d_data_gradient(const ConvShape& shape, const Values& w, const Values& dy);
Values conv2d_weights_gradient(const ConvShape& shape, const Values& x, const Values& dy);
Values conv2d_bias_gradient(const ConvShape& shape, const Values& dy);

/// A NaN stays a NaN.
Values relu(Values x);
/// `dy` where `y` > 0, zero elsewhere.
Values relu_gradient(const Values& y, Values dy);

/// `places`: row * window width + column, within the window, of the first largest value. A NaN counts as the
/// largest.
struct Pooled {
    Values y;
    Words places;
};
Pooled max_pool(const PoolShape& shape, const Values& x);
Values max_pool_gradient(const PoolShape& shape, const Words& places, const Values& dy);

/// Krizhevsky et al. 2012, section 3.3, with TensorFlow's unscaled sum.
struct Lrn {
    uint pixels, channels, radius;
    double bias, alpha, beta;
};
struct Normalized {
    Values y, scale;
};
Normalized lrn(const Lrn& lrn, const Values& x);
Values lrn_gradient(const Lrn& lrn, const Values& x, const Values& dy);

struct CrossEntropy {
    Values losses, gradient; ///< loss of each row; gradient of their sum by the logits
    Words correct;           ///< 1 if no class scores higher than the label's and none is NaN
};
CrossEntropy softmax_cross_entropy(const Values& logits, const Words& labels);

/// decay / 2 * sum of w^2
double weight_decay(const Values& w, double decay);

/// The gradient of `function` at `point` by central differences.
Values finite_differences(Values point, const std::function<double(const Values&)>& function);

double dot(const Values& a, const Values& b);
/// ||measured - expected|| / ||expected||
double relative_error(const Values& measured, const Values& expected);

/// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

/// The distortions of one example.
struct Distortion {
    uint top, left;
    bool flip;
    double brightness, contrast;
};
/// An image's and its crop's sizes in pixels
struct CropShape {
    uint height, width, crop_height, crop_width;
};
Distortion draw_distortion(std::uint64_t seed, uint record, uint epoch, const CropShape& shape);
Distortion centre_crop(const CropShape& shape);

/// The CIFAR-10 tutorial's distorted_inputs() from planar RGB bytes to [crop_height, crop_width, 3]: crop,
/// flip, brightness, contrast, per-image standardization, in this order.
Values distort(const std::uint8_t* image, const CropShape& shape, const Distortion& distortion);

} // namespace towers::reference
