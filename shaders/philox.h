#ifndef TOWERS_SHADERS_PHILOX_H
#define TOWERS_SHADERS_PHILOX_H

// Philox4x32 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): ten rounds turn a counter and
// a key into four random words. Kernels key it by the seed and count by (record, epoch, ., .), so that what happens
// to an example depends on nothing else. The last two words say what for:
//   0 or 1, 0                        distort_images
//   0x100 to 0x1ff, any              draw_augmentations, draw_operations, draw_erasing, erase_boxes
//   DROPOUT_STREAM + layer, quad     four elements of a dropout layer
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

// In [0, 1), in steps of 2^-24
FUNCTION float unit(uint word) { return float(word >> 8u) * (1.0f / 16777216.0f); }

#endif
