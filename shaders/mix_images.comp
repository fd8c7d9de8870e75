#include "kernel.h"

KERNEL(mix_images, MixImagesParams, 256) {
    const uint pixels = p.height * p.width;
    FOR_RANGE(item, p.count * pixels) {
        const uint i = item / pixels;
        const uint k = item % pixels;
        const uvec4 mix = p.mixes.at[i];
        const float part = as_float(mix.y);
        // Unsigned differences: places before the rectangle compare as far beyond it.
        const bool within = k / p.width - (mix.z >> 16u) < mix.w >> 16u &&
                            k % p.width - (mix.z & 0xffffu) < (mix.w & 0xffffu);
        const bool alone = !within || part == 0.0f;
        const uint partner = ((p.apart != 0u ? p.count + i : mix.x) * pixels + k) * p.channels;
        for (uint c = 0u; c < p.channels; ++c) {
            const float own = p.images.at[item * p.channels + c];
            if (alone)
                p.mixed.at[item * p.channels + c] = own;
            else
                p.mixed.at[item * p.channels + c] = own * (1.0f - part) + p.images.at[partner + c] * part;
        }
    }
}
