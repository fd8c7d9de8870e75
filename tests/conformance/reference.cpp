#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace towers::reference {
namespace {

uint same_out(uint in, uint stride) { return (in + stride - 1) / stride; }

uint same_pad(uint in, uint window, uint stride) {
    const int total = int((same_out(in, stride) - 1) * stride + window) - int(in);
    return uint(std::max(total, 0)) / 2;
}

/// Calls `visit(x index, w index, y index)` for every product that the convolution sums.
template<class Visit>
void for_each_product(const ConvShape& s, Visit visit) {
    const uint inputs = s.in_channels / s.groups, outputs = s.out_channels / s.groups; // of a group
    for (uint n = 0; n < s.batch; ++n)
        for (uint oy = 0; oy < s.out_height; ++oy)
            for (uint ox = 0; ox < s.out_width; ++ox)
                for (uint ky = 0; ky < s.kernel_height; ++ky)
                    for (uint kx = 0; kx < s.kernel_width; ++kx) {
                        const int iy = int(oy * s.stride_y + ky * s.dilation_y) - int(s.pad_top);
                        const int ix = int(ox * s.stride_x + kx * s.dilation_x) - int(s.pad_left);
                        if (iy < 0 || ix < 0 || iy >= int(s.in_height) || ix >= int(s.in_width)) continue;
                        const std::size_t x = (n * s.in_height + uint(iy)) * s.in_width + uint(ix);
                        const std::size_t w = ky * s.kernel_width + kx;
                        const std::size_t y = (n * s.out_height + oy) * s.out_width + ox;
                        for (uint i = 0; i < s.in_channels; ++i)
                            for (uint o = 0; o < s.out_channels; ++o) {
                                if (i / inputs != o / outputs) continue; // of another group
                                visit(x * s.in_channels + i, (w * inputs + i % inputs) * s.out_channels + o,
                                      y * s.out_channels + o);
                            }
                    }
}

} // namespace

ConvShape same_conv(uint batch, uint height, uint width, uint in, const Windows& windows, uint out,
                    uint groups) {
    const auto& [size, stride] = windows;
    return {.batch = batch,
            .in_height = height,
            .in_width = width,
            .in_channels = in,
            .out_height = same_out(height, stride[0]),
            .out_width = same_out(width, stride[1]),
            .out_channels = out,
            .kernel_height = size[0],
            .kernel_width = size[1],
            .stride_y = stride[0],
            .stride_x = stride[1],
            .dilation_y = 1,
            .dilation_x = 1,
            .pad_top = same_pad(height, size[0], stride[0]),
            .pad_left = same_pad(width, size[1], stride[1]),
            .groups = groups};
}

ConvShape padded_conv(uint batch, uint height, uint width, uint in, const Windows& windows,
                      const std::array<uint, 4>& pads, uint out, uint groups) {
    ConvShape shape = same_conv(batch, height, width, in, windows, out, groups);
    shape.out_height = (height + pads[0] + pads[1] - windows.size[0]) / windows.stride[0] + 1;
    shape.out_width = (width + pads[2] + pads[3] - windows.size[1]) / windows.stride[1] + 1;
    shape.pad_top = pads[0];
    shape.pad_left = pads[2];
    return shape;
}

ConvShape valid_conv(uint batch, uint height, uint width, uint in, const Windows& windows, uint out,
                     uint groups) {
    return padded_conv(batch, height, width, in, windows, {0, 0, 0, 0}, out, groups);
}

ConvShape dilated_conv(uint batch, uint height, uint width, uint in, const Windows& windows,
                       const std::array<uint, 2>& dilation, const std::array<uint, 4>& pads, uint out,
                       uint groups) {
    const std::array<uint, 2> reach{(windows.size[0] - 1) * dilation[0] + 1,
                                    (windows.size[1] - 1) * dilation[1] + 1};
    ConvShape shape = padded_conv(batch, height, width, in, {reach, windows.stride}, pads, out, groups);
    shape.kernel_height = windows.size[0];
    shape.kernel_width = windows.size[1];
    shape.dilation_y = dilation[0];
    shape.dilation_x = dilation[1];
    return shape;
}

PoolShape same_pool(uint batch, uint height, uint width, uint channels, const Windows& windows) {
    const auto& [size, stride] = windows;
    return {.batch = batch,
            .in_height = height,
            .in_width = width,
            .channels = channels,
            .out_height = same_out(height, stride[0]),
            .out_width = same_out(width, stride[1]),
            .window_height = size[0],
            .window_width = size[1],
            .stride_y = stride[0],
            .stride_x = stride[1],
            .pad_top = same_pad(height, size[0], stride[0]),
            .pad_left = same_pad(width, size[1], stride[1])};
}

PoolShape padded_pool(uint batch, uint height, uint width, uint channels, const Windows& windows,
                      const std::array<uint, 4>& pads) {
    PoolShape shape = same_pool(batch, height, width, channels, windows);
    shape.out_height = (height + pads[0] + pads[1] - windows.size[0]) / windows.stride[0] + 1;
    shape.out_width = (width + pads[2] + pads[3] - windows.size[1]) / windows.stride[1] + 1;
    shape.pad_top = pads[0];
    shape.pad_left = pads[2];
    return shape;
}

PoolShape valid_pool(uint batch, uint height, uint width, uint channels, const Windows& windows) {
    return padded_pool(batch, height, width, channels, windows, {0, 0, 0, 0});
}

ConvShape same_conv(uint batch, uint height, uint width, uint in, uint kernel_height, uint kernel_width,
                    uint stride, uint out) {
    return same_conv(batch, height, width, in, {{kernel_height, kernel_width}, {stride, stride}}, out);
}

ConvShape valid_conv(uint batch, uint height, uint width, uint in, uint kernel_height, uint kernel_width,
                     uint stride, uint out) {
    return valid_conv(batch, height, width, in, {{kernel_height, kernel_width}, {stride, stride}}, out);
}

PoolShape same_pool(uint batch, uint height, uint width, uint channels, uint window, uint stride) {
    return same_pool(batch, height, width, channels, {{window, window}, {stride, stride}});
}

PoolShape valid_pool(uint batch, uint height, uint width, uint channels, uint window, uint stride) {
    return valid_pool(batch, height, width, channels, {{window, window}, {stride, stride}});
}

Values conv2d(const ConvShape& s, const Values& x, const Values& w, const Values& b) {
    Values y(std::size_t(s.batch) * s.out_height * s.out_width * s.out_channels);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = b.empty() ? 0 : b[i % s.out_channels];
    for_each_product(s, [&](auto ix, auto iw, auto iy) { y[iy] += x[ix] * w[iw]; });
    return y;
}

Values conv2d_data_gradient(const ConvShape& s, const Values& w, const Values& dy) {
    Values dx(std::size_t(s.batch) * s.in_height * s.in_width * s.in_channels);
    for_each_product(s, [&](auto ix, auto iw, auto iy) { dx[ix] += dy[iy] * w[iw]; });
    return dx;
}

Values conv2d_weights_gradient(const ConvShape& s, const Values& x, const Values& dy) {
    Values dw(std::size_t(s.kernel_height) * s.kernel_width * (s.in_channels / s.groups) * s.out_channels);
    for_each_product(s, [&](auto ix, auto iw, auto iy) { dw[iw] += x[ix] * dy[iy]; });
    return dw;
}

Values conv2d_bias_gradient(const ConvShape& s, const Values& dy) {
    Values db(s.out_channels);
    for (std::size_t i = 0; i < dy.size(); ++i) db[i % s.out_channels] += dy[i];
    return db;
}

Values relu(Values x) {
    for (double& value : x)
        if (value < 0) value = 0;
    return x;
}

Values relu_gradient(const Values& y, Values dy) {
    for (std::size_t i = 0; i < dy.size(); ++i)
        if (!(y[i] > 0)) dy[i] = 0;
    return dy;
}

Pooled max_pool(const PoolShape& s, const Values& x) {
    Pooled pooled;
    for (uint n = 0; n < s.batch; ++n)
        for (uint oy = 0; oy < s.out_height; ++oy)
            for (uint ox = 0; ox < s.out_width; ++ox)
                for (uint c = 0; c < s.channels; ++c) {
                    double best = -INFINITY;
                    int place = -1;
                    for (uint k = 0; k < s.window_height * s.window_width; ++k) {
                        const int iy = int(oy * s.stride_y + k / s.window_width) - int(s.pad_top);
                        const int ix = int(ox * s.stride_x + k % s.window_width) - int(s.pad_left);
                        if (iy < 0 || ix < 0 || iy >= int(s.in_height) || ix >= int(s.in_width)) continue;
                        const double value =
                            x[((n * s.in_height + uint(iy)) * s.in_width + uint(ix)) * s.channels + c];
                        if (place < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
                            best = value;
                            place = int(k);
                        }
                    }
                    pooled.y.push_back(best);
                    pooled.places.push_back(uint(place));
                }
    return pooled;
}

Values max_pool_gradient(const PoolShape& s, const Words& places, const Values& dy) {
    Values dx(std::size_t(s.batch) * s.in_height * s.in_width * s.channels);
    for (std::size_t i = 0; i < dy.size(); ++i) {
        const std::size_t pixel = i / s.channels;
        const std::size_t column = pixel % s.out_width;
        const std::size_t row = pixel / s.out_width % s.out_height;
        const std::size_t image = pixel / s.out_width / s.out_height;
        const std::size_t iy = row * s.stride_y + places[i] / s.window_width - s.pad_top;
        const std::size_t ix = column * s.stride_x + places[i] % s.window_width - s.pad_left;
        dx[((image * s.in_height + iy) * s.in_width + ix) * s.channels + i % s.channels] += dy[i];
    }
    return dx;
}

Normalized lrn(const Lrn& l, const Values& x) {
    Normalized result;
    for (int i = 0; i < int(x.size()); ++i) {
        const int channels = int(l.channels), radius = int(l.radius), first = i / channels * channels;
        double sum = 0;
        for (int k = std::max(first, i - radius); k <= std::min(first + channels - 1, i + radius); ++k)
            sum += x[std::size_t(k)] * x[std::size_t(k)];
        result.scale.push_back(l.bias + l.alpha * sum);
        result.y.push_back(x[std::size_t(i)] * std::pow(result.scale.back(), -l.beta));
    }
    return result;
}

// dy_i/dx_k = [i = k] s_i^-beta - 2 alpha beta x_i x_k s_i^(-beta - 1) for |i - k| <= radius
Values lrn_gradient(const Lrn& l, const Values& x, const Values& dy) {
    const Values scale = lrn(l, x).scale;
    Values dx(x.size());
    for (std::size_t pixel = 0; pixel < l.pixels; ++pixel)
        for (std::size_t i = 0; i < l.channels; ++i)
            for (std::size_t k = 0; k < l.channels; ++k) {
                if (std::abs(int(i) - int(k)) > int(l.radius)) continue;
                const std::size_t at = pixel * l.channels + i, by = pixel * l.channels + k;
                const double through_scale =
                    -2 * l.alpha * l.beta * x[at] * x[by] * std::pow(scale[at], -l.beta - 1);
                dx[by] += dy[at] * (through_scale + (i == k ? std::pow(scale[at], -l.beta) : 0));
            }
    return dx;
}

CrossEntropy softmax_cross_entropy(const Values& logits, const Words& labels) {
    const std::size_t classes = logits.size() / labels.size();
    CrossEntropy result;
    for (std::size_t row = 0; row < labels.size(); ++row) {
        const double* const z = logits.data() + row * classes;
        const double score = z[labels[row]], top = *std::max_element(z, z + classes);
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(z[c] - top);
        result.losses.push_back(std::log(sum) + top - score);
        result.correct.push_back(score == top && !std::isnan(sum));
        for (std::size_t c = 0; c < classes; ++c)
            result.gradient.push_back(std::exp(z[c] - top) / sum - (c == labels[row] ? 1 : 0));
    }
    return result;
}

double weight_decay(const Values& w, double decay) { return decay / 2 * dot(w, w); }

Values finite_differences(Values point, const std::function<double(const Values&)>& function) {
    constexpr double step =
        1e-5; // the step squared and double's rounding divided by the step are about equal
    Values gradient;
    for (double& coordinate : point) {
        const double at = coordinate;
        coordinate = at + step;
        const double above = function(point);
        coordinate = at - step;
        gradient.push_back((above - function(point)) / (2 * step));
        coordinate = at;
    }
    return gradient;
}

double dot(const Values& a, const Values& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

double relative_error(const Values& measured, const Values& expected) {
    Values difference = measured;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= expected[i];
    return std::sqrt(dot(difference, difference) / dot(expected, expected));
}

} // namespace towers::reference
