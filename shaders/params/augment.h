// Augmentation: from records to a batch of images, in three kernels. draw_augmentations decides what happens to
// each example; grey_sums, only when the contrast changes, adds up the brightness of each image; augment_images
// makes the pixels. What happens to an example depends on the seed, its record and its epoch alone.
#ifndef TOWERS_SHADERS_PARAMS_AUGMENT_H
#define TOWERS_SHADERS_PARAMS_AUGMENT_H

// What draw_augmentations leaves of an example, in AUGMENT_DRAWS vec4s:
//   0: the box to cut out of the record: top, left, height, width in whole pixels. It may reach beyond the record.
//   1: factors of brightness, contrast and saturation; shift of hue in turns
//   2: 1 to flip the image left to right, else 0; top and left of the cutout in the image; 0
#define AUGMENT_DRAWS 3u

// How the box is chosen
#define AUGMENT_BOX_FIXED 0u  // box_top, box_left, box_height, box_width
#define AUGMENT_BOX_AREA 1u   // random area and aspect, anywhere; the fixed box when ten tries do not fit
#define AUGMENT_BOX_PADDED 2u // of the image's size, anywhere in the record with `pad` more pixels on each side

// The parts of a colour jitter
#define AUGMENT_BRIGHTNESS 1u
#define AUGMENT_CONTRAST 2u
#define AUGMENT_SATURATION 4u
#define AUGMENT_HUE 8u

// grey_sums leaves as many sums of an image
#define GREY_CHUNKS 8u

// Of a record (planes of bytes, 1 or 3) and of the image made from it. All sides are at most 2^14.
struct AugmentShape {
    uint height, width, channels, out_height, out_width;
    uint reflect; // what lies beyond the record's edge: 1 its mirror image about the outermost pixel, 0 black
};

// draws[count, AUGMENT_DRAWS], uniform in the ranges given. An area is (area_low to area_low + area_span) *
// area_unit / 4 pixels, all below 2^24 before the multiplication by the power of two; an aspect, width by
// height, is aspect_low * aspect_step^(0 to 255). A side is the rounded square root of area and aspect, found
// by exact comparisons, so that all devices choose the same box.
struct DrawAugmentationsParams {
    In_u32x4 examples; // see example.h
    Out_f32x4 draws;
    uint seed_low, seed_high, count, height, width, out_height, out_width;
    uint box, box_top, box_left, box_height, box_width, pad, area_low, area_span;
    float area_unit, aspect_low, aspect_step;
    uint flip, cutout;
    float brightness_low, brightness_high, contrast_low, contrast_high;
    float saturation_low, saturation_high, hue_low, hue_high;
};

// sums[count, GREY_CHUNKS]: of the grey values after the change of brightness, over each eighth of an image's
// pixels. Each value is rounded to units of 2^-16, in which the sums are exact.
struct GreySumsParams {
    In_u32 records;
    In_u32x4 examples;
    In_f32x4 draws;
    Out_fixed64 sums;
    AugmentShape shape;
    uint count;
};

// images[count, out_height, out_width, channels] and batch_labels[count]. In this order:
//   - the box, resized to the image: bilinear between the centres of pixels (align_corners = false), without
//     antialiasing, so that a box of the image's size is copied exactly;
//   - flip;
//   - jitter (the parts named by its bits): brightness x = x b; contrast x = m + (x - m) c about the mean m of the
//     image's grey values; saturation x = g + (x - g) s about the pixel's own grey value g (0.299 R + 0.587 G +
//     0.114 B); hue turned in HSV. Values are clamped to 0 to 255 after each and not rounded. Saturation and hue
//     leave an image of one channel as it is;
//   - (x - centre) * scale of its channel;
//   - cutout: a square of `cutout` pixels is 0.
// Without AUGMENT_CONTRAST, grey_sums is not read.
struct AugmentImagesParams {
    In_u32 records;
    In_u32x4 examples;
    In_f32x4 draws;
    In_fixed64 grey_sums;
    Out_f32 images;
    Out_u32 batch_labels;
    AugmentShape shape;
    uint count, cutout, jitter;
    float centre_r, centre_g, centre_b, scale_r, scale_g, scale_b;
};

#endif
