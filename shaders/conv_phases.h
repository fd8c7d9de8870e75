#ifndef TOWERS_SHADERS_CONV_PHASES_H
#define TOWERS_SHADERS_CONV_PHASES_H

// The phases of an axis of a convolution's images. Output pixel o sees through tap t the pixel
// o * stride + t * dilation - padding. So the same taps see all pixels that lie whole strides apart; these
// taps lie equally far apart, and among these pixels and taps alone the stride is 1.
struct Phase {
    uint pixel, pixels; // the first one, and how many
    uint tap, taps;     // likewise
    uint taps_apart;    // from one tap to the next
    uint dilation;      // output pixels from that which sees a pixel through a tap to that of the next tap
    uint corner;        // the output pixel that sees the first pixel through the first tap, if there is one;
                        // before the first one by unsigned wrap-around
};

FUNCTION uint phases_of(uint stride, uint length) { return min(stride, length); }

// Those with the most taps come first.
FUNCTION Phase phase_of(uint number, uint stride, uint dilation, uint kernel, uint padding, uint length) {
    Phase phase;
    phase.pixel = phase.tap = 0u;
    phase.pixels = length;
    phase.taps = kernel;
    phase.taps_apart = 1u;
    phase.dilation = dilation;
    phase.corner = padding;
    if (stride == 1u) return phase; // without divisions
    phase.pixel = (number + padding * (stride - 1u)) % phases_of(stride, length);
    const uint place = phase.pixel + padding;
    while (phase.tap < kernel && phase.tap * dilation % stride != place % stride) ++phase.tap;
    while (phase.taps_apart < kernel && phase.taps_apart * dilation % stride != 0u) ++phase.taps_apart;
    phase.pixels = (length - phase.pixel + stride - 1u) / stride;
    phase.taps = (kernel - phase.tap + phase.taps_apart - 1u) / phase.taps_apart;
    phase.dilation = phase.taps_apart * dilation / stride;
    phase.corner = place / stride - phase.tap * dilation / stride;
    return phase;
}

#endif
