#ifndef TOWERS_SHADERS_RANDOM_BOX_H
#define TOWERS_SHADERS_RANDOM_BOX_H

#include "philox.h"

// Sides of boxes of random area and aspect

// The root of four_squares / (4 by), rounded. The estimate may be off by the device's rounding, the
// comparisons are not.
FUNCTION uint rounded_side(float four_squares, float by) {
    uint side = uint(0.5f * sqrt(four_squares / by) + 0.5f);
    while (side > 0u && float(2u * side - 1u) * float(2u * side - 1u) * by > four_squares) --side;
    while (float(2u * side + 1u) * float(2u * side + 1u) * by <= four_squares) ++side;
    return side;
}

// Four times the area, in pixels
FUNCTION float random_four_areas(uint word, uint area_low, uint area_span, float area_unit) {
    return float(area_low + mul_high(word, area_span + 1u)) * area_unit;
}

FUNCTION float random_aspect(uint word, float aspect_low, float aspect_step) {
    float aspect = aspect_low;
    float step = aspect_step;
    for (uint bit = 24u; bit < 32u; ++bit) {
        if ((word >> bit & 1u) != 0u) aspect *= step;
        step *= step;
    }
    return aspect;
}

#endif
