// Sliding windows: the kernels of convolutions, the windows of pooling.
#pragma once

#include "engine/config/attributes.h"
#include "engine/plan/shape.h"

#include <array>

namespace towers {

/// Output size and padding along one axis.
struct Placed {
    unsigned out, before;
};

/// Along (height, width).
struct Window {
    std::array<unsigned, 2> size{1, 1}, stride{1, 1};
    std::array<unsigned, 2> dilation{1, 1}; ///< distance of neighbouring places in pixels
    /// SAME and VALID are TensorFlow's: SAME gives ceil(in / stride) outputs and puts an odd pixel of padding
    /// below and right; VALID does not pad.
    enum class Padding { same, valid, given } padding = Padding::same;
    std::array<unsigned, 2> before{0, 0}, after{0, 0}; ///< for explicit padding

    /// The pixels that a dilated window spans.
    unsigned reach(std::size_t axis) const { return (size[axis] - 1) * dilation[axis] + 1; }

    /// Throws LayerError when the window is larger than the padded image.
    std::array<Placed, 2> place(const Shape& in) const;
};

/// Whether a kind of layer has the key `dilation`.
enum class Dilation { none, read };

/// Reads the keys `size_key`, `stride`, `dilation` if the kind has it, and `pad`: "same", "valid", P on all
/// sides, [height, width], or [top, bottom, left, right].
Window read_window(Attributes& attributes, const std::string& size_key,
                   std::optional<std::array<unsigned, 2>> stride, Dilation dilation = Dilation::none);

} // namespace towers
