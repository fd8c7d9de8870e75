// From records to images
#ifndef TOWERS_SHADERS_PARAMS_IMAGES_H
#define TOWERS_SHADERS_PARAMS_IMAGES_H

// Crops the examples' images and standardizes them: (x - mean) / max(stddev, 1/sqrt(n)).
// records: planar RGB bytes, four per word, one image after the other, a slot each; examples: see example.h.
// `distort`: random crop, flip, brightness + U(-63, 63), contrast x U(0.2, 1.8) about each channel's mean;
// else the centre crop. Random numbers: Philox4x32-10 keyed by the seed, counted by (record, epoch).
// At most 2^22 pixels in a crop, records of less than 8 GiB together, and 2^31 values in a batch.
struct DistortImagesParams {
    In_u32 records;
    In_u32x4 examples;
    Out_f32 images;
    Out_u32 batch_labels;
    uint seed_low, seed_high;
    uint count, height, width, crop_height, crop_width, distort;
};

#endif
