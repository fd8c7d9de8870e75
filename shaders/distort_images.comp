#include "kernel.h"
#include "example.h"
#include "philox.h"
#include "records.h"
#include "wide.h"
#include "workgroup.h"

// The variance of n bytes, from their sum and the sum of their squares: n squares - sum^2 in 64 bits, since
// in an image with little contrast the difference of two float32 means is only rounding.
FUNCTION float variance_of(uint n, uint sum, Wide squares) {
    const uint low = n * squares.low;
    const uint low_sum = sum * sum;
    const uint high =
        mul_high(n, squares.low) + n * squares.high - mul_high(sum, sum) - (low < low_sum ? 1u : 0u);
    return (float(high) * 4294967296.0f + float(low - low_sum)) / (float(n) * float(n));
}

#define SQUARES_IN_A_WORD 65536u // of bytes: 65536 * 255 * 255 < 2^32

// A workgroup takes one image. The sums are of whole numbers, so they are exact in any order.
KERNEL(distort_images, DistortImagesParams, 256) {
    FOR_WORKGROUPS(i, p.count) {
        const Example example = example_at(p.examples, i);
        const uint plane = p.height * p.width;
        uint top = (p.height - p.crop_height) / 2u;
        uint left = (p.width - p.crop_width) / 2u;
        bool flip = false;
        float contrast = 1.0f;
        if (p.distort != 0u) {
            const Words place = philox(example.record, example.epoch, 0u, 0u, p.seed_low, p.seed_high);
            const Words light = philox(example.record, example.epoch, 1u, 0u, p.seed_low, p.seed_high);
            top = mul_high(place.a, p.height - p.crop_height + 1u);
            left = mul_high(place.b, p.width - p.crop_width + 1u);
            flip = (place.c & 1u) != 0u;
            contrast = 0.2f + unit(light.b) * 1.6f;
        }
        const RecordStart start = record_start(example.slot, plane * 3u);
        const uint origin = top * p.width + left;
        const uint pixels = p.crop_height * p.crop_width;

        uint sum_r = 0u, sum_g = 0u, sum_b = 0u;
        Wide square_r = wide_zero();
        Wide square_g = wide_zero();
        Wide square_b = wide_zero();
        for (uint first = 0u; first < pixels; first += SQUARES_IN_A_WORD) {
            const uint end = min(pixels, first + SQUARES_IN_A_WORD);
            uint some_r = 0u, some_g = 0u, some_b = 0u;
            for (uint k = first + LOCAL_ID; k < end; k += WORKGROUP_SIZE) {
                const uint at = origin + k / p.crop_width * p.width + k % p.crop_width;
                const uint r = byte_at(p.records, start, at);
                const uint g = byte_at(p.records, start, at + plane);
                const uint b = byte_at(p.records, start, at + 2u * plane);
                sum_r += r;
                sum_g += g;
                sum_b += b;
                some_r += r * r;
                some_g += g * g;
                some_b += b * b;
            }
            square_r = wide_plus(square_r, some_r);
            square_g = wide_plus(square_g, some_g);
            square_b = wide_plus(square_b, some_b);
        }
        const uvec4 sums = workgroupAdd(uvec4(sum_r, sum_g, sum_b, 0u));
        sum_r = sums.x;
        sum_g = sums.y;
        sum_b = sums.z;
        const uvec4 words = uvec4(square_r.low, square_g.low, square_b.low, 0u);
        const uvec4 low = workgroupAdd(words & 0xffffu);
        const uvec4 middle = workgroupAdd(words >> 16u);
        const uvec4 high = workgroupAdd(uvec4(square_r.high, square_g.high, square_b.high, 0u));
        const uint sum = sum_r + sum_g + sum_b;
        const float n = float(pixels);
        const float variances = variance_of(pixels, sum_r, wide_sum(low.x, middle.x, high.x)) +
                                variance_of(pixels, sum_g, wide_sum(low.y, middle.y, high.y)) +
                                variance_of(pixels, sum_b, wide_sum(low.z, middle.z, high.z));

        // Contrast keeps each channel's mean and scales its variance; the whole image's mean and variance
        // follow from the three channels'. Differences from a mean are whole numbers, since in an image with
        // little contrast those of floats are only rounding. Brightness only shifts the mean, so
        // standardization removes it.
        const float shift_r = float(int(3u * sum_r - sum)) / (3.0f * n);
        const float shift_g = float(int(3u * sum_g - sum)) / (3.0f * n);
        const float shift_b = float(int(3u * sum_b - sum)) / (3.0f * n);
        const float spread = shift_r * shift_r + shift_g * shift_g + shift_b * shift_b;
        const float variance = (contrast * contrast * variances + spread) / 3.0f;
        const float scale = 1.0f / max(sqrt(variance), inversesqrt(3.0f * n));
        const float gain = contrast / n;

        for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
            const uint column = k % p.crop_width;
            const uint at = origin + k / p.crop_width * p.width + (flip ? p.crop_width - 1u - column : column);
            const uint r = byte_at(p.records, start, at);
            const uint g = byte_at(p.records, start, at + plane);
            const uint b = byte_at(p.records, start, at + 2u * plane);
            const uint target = (i * pixels + k) * 3u;
            p.images.at[target] = (float(int(pixels * r - sum_r)) * gain + shift_r) * scale;
            p.images.at[target + 1u] = (float(int(pixels * g - sum_g)) * gain + shift_g) * scale;
            p.images.at[target + 2u] = (float(int(pixels * b - sum_b)) * gain + shift_b) * scale;
        }
        if (LOCAL_ID == 0u) p.batch_labels.at[i] = example.label;
    }
}
