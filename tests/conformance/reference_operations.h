// What the augmentation's operations and erased boxes should be, in double precision.
#pragma once

#include "engine/data/augmentation.h"
#include "tests/conformance/reference.h"

namespace towers::reference {

/// As draw_operations leaves one: OPERATION_DRAWS vec4s
struct Operation {
    uint kind;
    double magnitude = 0, more = 0;
    std::array<double, 4> factors = {1, 1, 1, 0};
};

/// An image of values 0 to 255, [height, width, channels], after the operation.
Values operated(const Values& x, const ImageSize& size, const Operation& operation);

/// The operations that are drawn for an example of images of this size, in their order.
std::vector<Operation> drawn_operations(const Augmentation& settings, const ImageSize& image,
                                        const std::array<double, 4>& factors, std::uint64_t seed, uint record,
                                        uint epoch);

/// A box to erase; a height of 0: none
struct ErasedBox {
    int top, left, height, width;
    std::array<double, 3> colour;
};
std::vector<ErasedBox> drawn_boxes(const Augmentation::Erasing& settings, const ImageSize& image,
                                   std::uint64_t seed, uint record, uint epoch);

/// A box's noise at pixel k, of each channel.
std::array<double, 3> erasing_noise(std::uint64_t seed, uint record, uint epoch, uint box, uint k);

} // namespace towers::reference
