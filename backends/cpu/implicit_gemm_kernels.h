// The passes of implicit_gemm.h. The files level_*.cpp include this and are each compiled for a processor
// level.
#pragma once

#include "backends/cpu/implicit_gemm.h"
#include "backends/cpu/product.h"

namespace towers {
namespace {

/// Copies the input of `rows` output rows from `row` on, zeros around the image included.
inline void pad_input(const ImplicitGemmShape& s, const float* image, size_t row, size_t rows,
                      float* padded) {
    const size_t width = s.padded_row() / s.in_channels, left = least(s.pad_left, width);
    const size_t columns = least(width - left, s.in_width);
    for (size_t i = 0; i < (rows - 1) * s.stride_y + s.kernel_height; ++i) {
        float* const to = padded + i * s.padded_row();
        const size_t y = row * s.stride_y + i - s.pad_top; // below zero is far above
        const size_t floats = y < s.in_height ? columns * s.in_channels : 0;
        size_t at = 0;
        for (; at < left * s.in_channels; ++at) to[at] = 0.0f;
        if (floats != 0) {
            const float* const from = image + y * s.in_width * s.in_channels;
            for (size_t k = 0; k < floats; ++k) to[at + k] = from[k];
        }
        for (at += floats; at < s.padded_row(); ++at) to[at] = 0.0f;
    }
}

inline void finish_rows(const ImplicitGemmForward& p, float* y, size_t pixels) {
    const size_t channels = p.shape.out_channels;
    for (float* const end = y + pixels * channels; y < end; y += channels)
        for (size_t k = 0; k < channels; k += lanes) {
            Vector value = load(y + k);
            if (p.bias != nullptr) value = value + load(p.bias + k);
            if (p.relu) value = relu(value);
            store(y + k, value);
        }
}

inline void implicit_forward(const ImplicitGemmForward& p, size_t first, size_t end, float* padded) {
    const ImplicitGemmShape& s = p.shape;
    for (size_t image = first; image < end; ++image)
        for (size_t row = 0; row < s.out_height; row += s.rows_at_once()) {
            const size_t rows = least(s.rows_at_once(), s.out_height - row);
            pad_input(s, p.x + image * s.in_height * s.in_width * s.in_channels, row, rows, padded);
            const auto patch = [&](size_t pixel) {
                return padded + pixel / s.out_width * s.stride_y * s.padded_row() +
                       pixel % s.out_width * s.stride_x * s.in_channels;
            };
            float* const y = p.y + (image * s.out_height + row) * s.out_width * s.out_channels;
            for (size_t k = 0; k < s.out_channels; k += panel)
                multiply(patch, {s.run(), 1, s.padded_row()}, p.w + k, s.out_channels, rows * s.out_width,
                         least(s.out_channels - k, panel), s.depth(), false, y + k, s.out_channels);
            if (p.bias != nullptr || p.relu) finish_rows(p, y, rows * s.out_width);
        }
}

inline void implicit_gradient(const ImplicitGemmGradient& p, size_t first, size_t end, float* padded) {
    const ImplicitGemmShape& s = p.shape;
    for (size_t image = first; image < end; ++image)
        for (size_t row = 0; row < s.out_height; row += s.rows_at_once()) {
            const size_t rows = least(s.rows_at_once(), s.out_height - row), pixels = rows * s.out_width;
            pad_input(s, p.x + image * s.in_height * s.in_width * s.in_channels, row, rows, padded);
            const auto weight = [&](size_t k) { return padded + k / s.run() * s.padded_row() + k % s.run(); };
            const float* const dy = p.dy + (image * s.out_height + row) * s.out_width * s.out_channels;
            for (size_t k = 0; k < s.out_channels; k += panel)
                multiply(weight, {s.out_width, s.stride_x * s.in_channels, s.stride_y * s.padded_row()},
                         dy + k, s.out_channels, s.depth(), least(s.out_channels - k, panel), pixels, true,
                         p.dw + k, s.out_channels);
            if (p.db == nullptr) continue;
            for (size_t k = 0; k < s.out_channels; k += lanes) {
                Vector sum = all(0.0f);
                for (size_t pixel = 0; pixel < pixels; ++pixel)
                    sum = sum + load(dy + pixel * s.out_channels + k);
                store(p.db + k, load(p.db + k) + sum);
            }
        }
}

} // namespace
} // namespace towers
