#include "kernel.h"
#include "philox.h"

FUNCTION uint byte_at(In_u32 bytes, uint i) { return bytes.at[i >> 2u] >> ((i & 3u) * 8u) & 255u; }

// The variance of n bytes, from their sum and the sum of their squares: n squares - sum^2 in 64 bits, since
// in a dull image the difference of two float32 means is only rounding.
FUNCTION float variance_of(uint n, uint sum, uint squares) {
    const uint low = n * squares;
    const uint low_sum = sum * sum;
    const uint high = mul_high(n, squares) - mul_high(sum, sum) - (low < low_sum ? 1u : 0u);
    return (float(high) * 4294967296.0f + float(low - low_sum)) / (float(n) * float(n));
}

// A subgroup takes one image. The sums are of whole numbers, so they are exact in any order.
KERNEL(distort_images, DistortImagesParams, 256) {
    FOR_SUBGROUPS(i, p.count) {
        const uint record = p.examples.at[i].x;
        const uint plane = p.height * p.width;
        uint top = (p.height - p.crop) / 2u;
        uint left = (p.width - p.crop) / 2u;
        bool flip = false;
        float contrast = 1.0f;
        if (p.distort != 0u) {
            const Words place = philox(record, p.examples.at[i].y, 0u, 0u, p.seed_low, p.seed_high);
            const Words light = philox(record, p.examples.at[i].y, 1u, 0u, p.seed_low, p.seed_high);
            top = mul_high(place.a, p.height - p.crop + 1u);
            left = mul_high(place.b, p.width - p.crop + 1u);
            flip = (place.c & 1u) != 0u;
            contrast = 0.2f + unit(light.b) * 1.6f;
        }
        const uint origin = record * plane * 3u + top * p.width + left;
        const uint pixels = p.crop * p.crop;

        uint sum_r = 0u, sum_g = 0u, sum_b = 0u;
        uint square_r = 0u, square_g = 0u, square_b = 0u;
        for (uint k = SUBGROUP_LANE; k < pixels; k += SUBGROUP_SIZE) {
            const uint at = origin + k / p.crop * p.width + k % p.crop;
            const uint r = byte_at(p.records, at);
            const uint g = byte_at(p.records, at + plane);
            const uint b = byte_at(p.records, at + 2u * plane);
            sum_r += r;
            sum_g += g;
            sum_b += b;
            square_r += r * r;
            square_g += g * g;
            square_b += b * b;
        }
        sum_r = subgroupAdd(sum_r);
        sum_g = subgroupAdd(sum_g);
        sum_b = subgroupAdd(sum_b);
        const uint sum = sum_r + sum_g + sum_b;
        const float n = float(pixels);
        const float variances = variance_of(pixels, sum_r, subgroupAdd(square_r)) +
                                variance_of(pixels, sum_g, subgroupAdd(square_g)) +
                                variance_of(pixels, sum_b, subgroupAdd(square_b));

        // Contrast keeps each channel's mean and scales its variance; the whole image's follow from the three.
        // Take differences from a mean in whole numbers: in a dull image those of floats are only rounding.
        // Brightness only moves the mean, so standardization takes it out, whatever it is.
        const float shift_r = float(int(3u * sum_r - sum)) / (3.0f * n);
        const float shift_g = float(int(3u * sum_g - sum)) / (3.0f * n);
        const float shift_b = float(int(3u * sum_b - sum)) / (3.0f * n);
        const float spread = shift_r * shift_r + shift_g * shift_g + shift_b * shift_b;
        const float variance = (contrast * contrast * variances + spread) / 3.0f;
        const float scale = 1.0f / max(sqrt(variance), inversesqrt(3.0f * n));
        const float gain = contrast / n;

        for (uint k = SUBGROUP_LANE; k < pixels; k += SUBGROUP_SIZE) {
            const uint column = k % p.crop;
            const uint at = origin + k / p.crop * p.width + (flip ? p.crop - 1u - column : column);
            const uint r = byte_at(p.records, at);
            const uint g = byte_at(p.records, at + plane);
            const uint b = byte_at(p.records, at + 2u * plane);
            const uint target = (i * pixels + k) * 3u;
            p.images.at[target] = (float(int(pixels * r - sum_r)) * gain + shift_r) * scale;
            p.images.at[target + 1u] = (float(int(pixels * g - sum_g)) * gain + shift_g) * scale;
            p.images.at[target + 2u] = (float(int(pixels * b - sum_b)) * gain + shift_b) * scale;
        }
        if (SUBGROUP_LANE == 0u) p.batch_labels.at[i] = p.labels.at[record];
    }
}
