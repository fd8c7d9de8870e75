#ifndef TOWERS_SHADERS_NORMAL_H
#define TOWERS_SHADERS_NORMAL_H

#include "philox.h"

// The sine of so many turns, times 2^-32
FUNCTION float sine_of_turns(uint turns) {
    const uint quarter = turns >> 30u;
    const float angle = float(turns & 0x3fffffffu) * 1.4629180792671596e-9f; // pi / 2 2^-30
    const float x = (quarter & 1u) != 0u ? 1.5707963267948966f - angle : angle;
    const float square = x * x;
    const float sine =
        x * (1.0f -
             square / 6.0f *
                 (1.0f - square / 20.0f *
                             (1.0f - square / 42.0f * (1.0f - square / 72.0f * (1.0f - square / 110.0f)))));
    return quarter >= 2u ? -sine : sine;
}

// A normally distributed number from two random words (Box and Muller 1958), up to 5.8 deviations
FUNCTION float normal(uint size, uint turns) {
    return sqrt(-2.0f * log(1.0f - unit(size))) * sine_of_turns(turns);
}

#endif
