// Images of another size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// Resizes planes of bytes, one at a time, as the Image.resize() of Pillow 11 with BILINEAR does, to the bit:
/// each new pixel is a weighted mean of the old ones around it, more of them when the image becomes smaller.
/// First along the rows, then along the columns.
class Resizer {
public:
    struct Size {
        unsigned height, width;
    };
    Resizer(Size from, Size to);

    /// `from`: [height][width] of the size from; `to`: of the size to. From any thread.
    void resize(std::span<const std::uint8_t> from, std::span<std::uint8_t> to) const;

private:
    /// For each new pixel of an axis: which old ones it is the mean of, and with which weights.
    struct Axis {
        struct Taps {
            unsigned first;
            std::vector<std::int32_t> weights; ///< of 2^22
        };
        Axis(unsigned from, unsigned to);
        std::vector<Taps> taps;
        /// Makes rows of so many pixels from other rows.
        void weigh(std::span<const std::uint8_t> from, std::size_t length, std::span<std::uint8_t> to) const;
    };
    Size from_, to_;
    Axis rows_, columns_;
};

} // namespace towers
