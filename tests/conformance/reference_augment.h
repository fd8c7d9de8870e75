// What the augmentation should make of an example, in double precision and image by image, from the settings
// as a user gives them.
#pragma once

#include "engine/data/augmentation.h"
#include "tests/conformance/reference.h"

namespace towers::reference {

/// What is drawn for one example
struct Draw {
    int top, left, height, width; ///< of the box
    double brightness, contrast, saturation, hue;
    bool flip, flip_vertical;
    uint cut_top, cut_left;
};

/// One example of images of `stored` that become images of `image`
struct AugmentedExample {
    Augmentation settings;
    ImageSize stored, image;
    std::uint64_t seed;
    uint record, epoch;

    Draw draw() const;

    /// The jittered image's grey values after the change of brightness: [height, width]
    Values grey(const std::uint8_t* bytes) const;

    /// The network's values, [height, width, channels], from the stored image's planes.
    Values make(const std::uint8_t* bytes) const;

private:
    Values resized(const std::uint8_t* bytes, const Draw& draw) const;
};

} // namespace towers::reference
