#include "kernel.h"

// One round of Philox4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), ten of which make
// four random words of a counter and a key.
struct Words {
    uint a, b, c, d;
};

FUNCTION Words philox(uint counter_a, uint counter_b, uint counter_c, uint counter_d, uint key_a, uint key_b) {
    Words w;
    w.a = counter_a;
    w.b = counter_b;
    w.c = counter_c;
    w.d = counter_d;
    for (uint i = 0u; i < 10u; ++i) {
        const uint high_a = mul_high(0xD2511F53u, w.a);
        const uint low_a = 0xD2511F53u * w.a;
        const uint high_c = mul_high(0xCD9E8D57u, w.c);
        const uint low_c = 0xCD9E8D57u * w.c;
        w.a = high_c ^ w.b ^ key_a;
        w.b = low_c;
        w.c = high_a ^ w.d ^ key_b;
        w.d = low_a;
        key_a += 0x9E3779B9u;
        key_b += 0xBB67AE85u;
    }
    return w;
}

FUNCTION float unit(uint word) { return float(word >> 8u) * (1.0f / 16777216.0f); }

FUNCTION uint byte_at(In_u32 bytes, uint i) { return bytes.at[i >> 2u] >> ((i & 3u) * 8u) & 255u; }

// A subgroup takes one image. The sums are of whole numbers, so they are exact in any order.
KERNEL(distort_images, DistortImagesParams, 256) {
    FOR_SUBGROUPS(i, p.count) {
        const uint record = p.examples.at[i].x;
        const uint plane = p.height * p.width;
        uint top = (p.height - p.crop) / 2u;
        uint left = (p.width - p.crop) / 2u;
        bool flip = false;
        float brightness = 0.0f;
        float contrast = 1.0f;
        if (p.distort != 0u) {
            const Words place = philox(record, p.examples.at[i].y, 0u, 0u, p.seed_low, p.seed_high);
            const Words light = philox(record, p.examples.at[i].y, 1u, 0u, p.seed_low, p.seed_high);
            top = mul_high(place.a, p.height - p.crop + 1u);
            left = mul_high(place.b, p.width - p.crop + 1u);
            flip = (place.c & 1u) != 0u;
            brightness = unit(light.a) * 126.0f - 63.0f;
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
        const float n = float(pixels);
        const float mean_r = float(subgroupAdd(sum_r)) / n;
        const float mean_g = float(subgroupAdd(sum_g)) / n;
        const float mean_b = float(subgroupAdd(sum_b)) / n;
        const float variance_r = float(subgroupAdd(square_r)) / n - mean_r * mean_r;
        const float variance_g = float(subgroupAdd(square_g)) / n - mean_g * mean_g;
        const float variance_b = float(subgroupAdd(square_b)) / n - mean_b * mean_b;

        // Contrast keeps each channel's mean and scales its variance; the whole image's follow from the three.
        const float mean = (mean_r + mean_g + mean_b) / 3.0f;
        const float spread = (mean_r - mean) * (mean_r - mean) + (mean_g - mean) * (mean_g - mean) +
                             (mean_b - mean) * (mean_b - mean);
        const float variance =
            (contrast * contrast * (variance_r + variance_g + variance_b) + spread) / 3.0f;
        const float scale = 1.0f / max(sqrt(max(variance, 0.0f)), inversesqrt(3.0f * n));
        const float bright_mean = mean + brightness;

        for (uint k = SUBGROUP_LANE; k < pixels; k += SUBGROUP_SIZE) {
            const uint column = k % p.crop;
            const uint at = origin + k / p.crop * p.width + (flip ? p.crop - 1u - column : column);
            const float r = (float(byte_at(p.records, at)) - mean_r) * contrast + (mean_r + brightness);
            const float g = (float(byte_at(p.records, at + plane)) - mean_g) * contrast + (mean_g + brightness);
            const float b =
                (float(byte_at(p.records, at + 2u * plane)) - mean_b) * contrast + (mean_b + brightness);
            const uint target = (i * pixels + k) * 3u;
            p.images.at[target] = (r - bright_mean) * scale;
            p.images.at[target + 1u] = (g - bright_mean) * scale;
            p.images.at[target + 2u] = (b - bright_mean) * scale;
        }
        if (SUBGROUP_LANE == 0u) p.batch_labels.at[i] = p.labels.at[record];
    }
}
