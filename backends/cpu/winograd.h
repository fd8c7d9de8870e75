// Convolutions by Winograd's minimal filtering (S. Winograd 1980; Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015). F(m x m, r x r): the m x m results of a tile and the r x r weights
// meet at (m + r - 1)^2 points, at each of which all tiles and channels are one matrix product. That is (m +
// r - 1)^2 multiplications a tile where the sum itself takes m^2 r^2. The gradient of the weights is the same
// with roles exchanged: r x r results of an m x m window of dy.
//
// This header joins the code that plans a pass (winograd.cpp) to the code that computes it, which is compiled
// once for each processor level (winograd_kernels.h). All matrices are float32 in blocks that a product reads
// from beginning to end:
//   weights U   [panel][point][in channels, 1 spare][columns of a panel]
//   input V     [chunk][point][tiles, 1 spare][channels of a chunk]
//   output M    [panel][point][tiles, 1 spare][columns of a panel]
//   gradient D  as U
// A panel is a range of output channels, a chunk one of input channels; both are whole vectors. The spare row
// keeps points from lying a multiple of 4 KiB apart, where a first-level cache would drop them.
#pragma once

#include <cstddef>

namespace towers {

/// y[batch, out_height, out_width, out_channels] from x[batch, in_height, in_width, in_channels], stride 1.
struct WinogradShape {
    std::size_t batch, in_height, in_width, in_channels, out_height, out_width, out_channels;
    std::ptrdiff_t pad_top, pad_left; ///< negative: so many pixels of x come before the first window
    std::size_t panel = 0, chunk = 0; ///< channels; see WinogradCode::arranged()
};

struct WinogradRange {
    std::size_t first, end;
    std::size_t size() const { return end - first; }
};

struct WinogradForward {
    WinogradShape shape;
    const float *x, *u;
    float* y;
    const float* bias; ///< [out_channels], or null
    const float* mask; ///< as y, which becomes zero where this is not above zero; or null
    bool relu;
};

struct WinogradWeights {
    const float* w; ///< HWIO [r, r, in, out]
    std::size_t in, out;
    bool mirrored;         ///< U for the data gradient: turned by 180 degrees, in and out exchanged
    std::size_t panel = 0; ///< as the shape's
};

struct WinogradGradient {
    WinogradShape shape;
    const float *x, *dy;
    /// For blocks of tiles: so many, whose sum is added to `sums` as one, since a longer chain would round
    /// worse
    std::size_t block = 0;
    float* sums = nullptr;      ///< D, zero before the first addition
    float* bias_sums = nullptr; ///< [out_channels] of dy, zero likewise; or null
};

/// Some rows of one panel of several D, `stride` floats apart, whose sum is the gradient.
struct WinogradSums {
    const float* first; ///< of the first row at the first point
    std::size_t plane;  ///< floats from one point to the next
    std::size_t count, stride;
};

/// What one processor level computes for one F(m x m, r x r).
struct WinogradCode {
    std::size_t m, r, points;
    std::size_t lanes, widest_panel, widest_chunk; ///< channels
    std::size_t weight_rows; ///< input channels that one call of `weights` transforms at most
    /// U of some input channels (with `mirrored` out channels) and one panel, whose points lie `plane`
    /// floats apart
    void (*weights)(const WinogradWeights& p, WinogradRange rows, std::size_t panel, float* u,
                    std::size_t plane);
    /// y of some tiles and panels. `scratch`: as many floats as the function of that name says.
    void (*forward)(const WinogradForward& p, WinogradRange tiles, WinogradRange panels, float* scratch);
    /// Adds some tiles' part to D (and bias_sums) of some panels. `scratch`: for a block.
    void (*gradient)(const WinogradGradient& p, WinogradRange tiles, WinogradRange panels, float* scratch);
    /// dw[r, r, in, out] of some input channels and one panel
    void (*finish)(const WinogradShape& shape, const WinogradSums& sums, WinogradRange rows,
                   std::size_t panel, float* dw);

    // All tiles at once, for few tiles and many weights: V of all tiles comes first, and each part of U or D
    // lives only in the cache of the thread that needs it.

    /// V of some tiles. `zeros`: a row of x, for pixels outside an image.
    void (*input)(const WinogradShape& shape, const float* x, WinogradRange tiles, const float* zeros,
                  float* v);
    /// y of some tiles and one panel. `scratch`: M of these tiles, then a chunk of U; see panel_floats().
    void (*panel_of_results)(const WinogradForward& p, const WinogradWeights& w, float* v,
                             WinogradRange tiles, std::size_t panel, float* scratch);
    /// dy of one panel, [panel][point][tiles, 1 spare][columns], and its sums over all pixels, if
    /// `bias_sums` is not null. `zeros`: as many as a row of dy.
    void (*panel_of_dy)(const WinogradGradient& p, std::size_t panel, const float* zeros, float* dy,
                        float* bias_sums);
    /// dw of one chunk of input channels and one panel. `scratch`: a chunk of D.
    void (*piece_of_gradient)(const WinogradShape& shape, float* v, float* dy, std::size_t chunk,
                              std::size_t panel, float* dw, float* scratch);

    /// Sets the shape's panel and chunk, which are as narrow as the channels are few.
    WinogradShape arranged(WinogradShape s) const {
        const auto width = [this](std::size_t channels, std::size_t widest) {
            const std::size_t whole = (channels + lanes - 1) / lanes * lanes;
            return whole < widest ? whole : widest;
        };
        s.panel = width(s.out_channels, widest_panel);
        s.chunk = width(s.in_channels, widest_chunk);
        return s;
    }
    std::size_t tiles(const WinogradShape& s) const {
        return s.batch * ((s.out_height + m - 1) / m) * ((s.out_width + m - 1) / m);
    }

    // Of shapes that are arranged:
    std::size_t panels(const WinogradShape& s) const { return (s.out_channels + s.panel - 1) / s.panel; }
    std::size_t chunks(const WinogradShape& s) const { return (s.in_channels + s.chunk - 1) / s.chunk; }
    /// Floats of V of so many tiles, and of a panel with so many rows
    std::size_t input_floats(const WinogradShape& s, std::size_t tiles) const {
        return points * (tiles + 1) * chunks(s) * s.chunk;
    }
    std::size_t panel_floats(const WinogradShape& s, std::size_t rows) const {
        return points * (rows + 1) * s.panel;
    }
    /// Floats of U or D
    std::size_t weight_floats(const WinogradShape& s) const {
        return panels(s) * panel_floats(s, s.in_channels);
    }
    /// For `forward` and `gradient`: floats for V and M of so many tiles (a block's) and panels, a row of
    /// zeros for pixels outside an image, and sums of dy.
    std::size_t scratch(const WinogradShape& s, std::size_t tiles, std::size_t panels) const {
        const std::size_t row = s.in_channels > s.out_channels ? s.in_channels : s.out_channels;
        return input_floats(s, tiles) + panels * panel_floats(s, tiles) + row + panels * s.panel;
    }
};

} // namespace towers
