// Augmentation: from records to a batch of images. draw_augmentations decides what happens to each example;
// grey_sums, only when the contrast changes, adds up the brightness of each image; augment_images makes the
// pixels. Where that is not all, draw_operations draws a list of operations for each example, of which each
// launch of transform_images does one; draw_erasing draws boxes, which erase_boxes paints over the network's
// values. What happens to an example depends on the seed, its record and its epoch alone.
#ifndef TOWERS_SHADERS_PARAMS_AUGMENT_H
#define TOWERS_SHADERS_PARAMS_AUGMENT_H

// What draw_augmentations leaves of an example, in AUGMENT_DRAWS vec4s:
//   0: the box to cut out of the record: top, left, height, width in whole pixels. It may reach beyond it.
//   1: factors of brightness, contrast and saturation; shift of hue in turns
//   2: the flip, FLIP_LEFT_RIGHT and FLIP_UPSIDE_DOWN added up; top and left of the cutout in the image; 0
#define AUGMENT_DRAWS 3u

// How the box is chosen
#define AUGMENT_BOX_FIXED 0u // box_height, box_width, in the middle
#define AUGMENT_BOX_AREA 1u  // random area and aspect, anywhere; the fixed box when ten tries do not fit
// Of the image's size, anywhere in the record with `pad` more pixels on each side
#define AUGMENT_BOX_PADDED 2u

#define FLIP_LEFT_RIGHT 1u
#define FLIP_UPSIDE_DOWN 2u

// When an image is flipped left to right
#define AUGMENT_FLIP_NEVER 0u
#define AUGMENT_FLIP_HALF 1u        // of the images
#define AUGMENT_FLIP_ALTERNATING 2u // half of the records in even epochs, the others in odd ones
#define AUGMENT_FLIP_PROBABILITY 3u // flip_probability

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
    uint antialias; // 1: a reduced box is averaged over, as PIL's bilinear filter does
};

// draws[count, AUGMENT_DRAWS], uniform in the ranges given. An area is (area_low to area_low + area_span) *
// area_unit / 4 pixels, all below 2^24 before the multiplication by the power of two; an aspect, width by
// height, is aspect_low * aspect_step^(0 to 255). A side is the rounded square root of area and aspect, found
// by exact comparisons, so that all devices choose the same box.
struct DrawAugmentationsParams {
    In_u32x4 examples; // see example.h
    Out_f32x4 draws;
    uint seed_low, seed_high, count, height, width, out_height, out_width;
    uint box, box_height, box_width, pad, area_low, area_span;
    float area_unit, aspect_low, aspect_step;
    uint flip, cutout;
    float flip_probability, flip_vertical; // the latter: probability of upside down
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
//   - the box, resized to the image: bilinear between the centres of pixels (align_corners = false), so that a
//     box of the image's size is copied exactly;
//   - flip;
//   - jitter (the parts named by its bits): brightness x = x b; contrast x = m + (x - m) c about the mean m of
//     the image's grey values; saturation x = g + (x - g) s about the pixel's own grey value g (0.299 R +
//     0.587 G + 0.114 B); hue turned in HSV. Values are clamped to 0 to 255 after each and not rounded.
//     Saturation and hue leave an image of one channel as it is;
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

// An operation of an example, in OPERATION_DRAWS vec4s:
//   0: which, its magnitude, and up to two numbers more
//   1: of OPERATION_JITTER: factors of brightness, contrast and saturation; shift of hue in turns
#define OPERATION_DRAWS 2u

// Those of torchvision.transforms' RandAugment and TrivialAugmentWide, in their order and with its
// magnitudes. They take and make whole bytes, as torchvision's tensors of uint8. What comes from outside the
// image is black.
#define OPERATION_NONE 0u     // copies
#define OPERATION_IDENTITY 1u // rounds to bytes
#define OPERATION_SHEAR_X 2u
#define OPERATION_SHEAR_Y 3u
#define OPERATION_TRANSLATE_X 4u // pixels, less their fraction
#define OPERATION_TRANSLATE_Y 5u
#define OPERATION_ROTATE 6u     // degrees, counter-clockwise
#define OPERATION_BRIGHTNESS 7u // a factor, less 1; so are the next three
#define OPERATION_COLOR 8u
#define OPERATION_CONTRAST 9u
#define OPERATION_SHARPNESS 10u
#define OPERATION_POSTERIZE 11u // bits to keep
#define OPERATION_SOLARIZE 12u  // the least byte that is inverted
#define OPERATION_AUTOCONTRAST 13u
#define OPERATION_EQUALIZE 14u
#define POLICY_OPERATIONS 14u
// Others, on values that need not be whole. Grey is torchvision's 0.2989 R + 0.587 G + 0.114 B.
#define OPERATION_ROTATION 15u     // degrees, counter-clockwise; 1: bilinear, else the nearest pixel
#define OPERATION_JITTER 16u       // magnitude: the parts' bits; the order of the parts, 0 to 23
#define OPERATION_BLUR_ROWS 17u    // deviation of the Gauss filter in pixels; taps
#define OPERATION_BLUR_COLUMNS 18u // likewise
#define MOST_BLUR_TAPS 63u
#define MOST_POLICY_OPERATIONS 16u

#define POLICY_NONE 0u
#define POLICY_RAND_AUGMENT 1u
#define POLICY_TRIVIAL_AUGMENT 2u

// A further part of a jitter, after the others
#define AUGMENT_GRAYSCALE 16u

// operations[count, OPERATION_SLOTS(p), OPERATION_DRAWS]: rotation, policy, jitter with grayscale, blur, as
// far as there are any. `draws` has the jitter's factors. A magnitude of the policy is number `magnitude` of
// `bins` from 0 to the largest, or of the trivial policy any of them; a step is the difference of two.
struct DrawOperationsParams {
    In_u32x4 examples;
    In_f32x4 draws;
    Out_f32x4 operations;
    uint seed_low, seed_high, count, height, width;
    uint rotation, bilinear; // whether there is one
    float rotation_low, rotation_high;
    uint policy, policy_operations, magnitude, bins;
    float shear_step, rotate_step, factor_step;
    uint jitter, random_order;
    float jitter_probability, grayscale;
    uint blur_taps;
    float blur_probability, sigma_low, sigma_high;
};
#define HAS_JITTER(p) ((p).jitter != 0u || (p).grayscale > 0.0f ? 1u : 0u)
#define OPERATION_SLOTS(p)                                                                                   \
    ((p).rotation + (p).policy_operations + HAS_JITTER(p) + ((p).blur_taps != 0u ? 2u : 0u))

// y[count, height, width, channels]: x, of values 0 to 255, after operation number `slot` of each image. Then
// (y - centre) * scale of its channel and the cutout, as augment_images does; a cutout of 0 needs no `draws`.
// At most 2^24 pixels in an image. Bytes are computed in whole numbers, so that all devices make the same.
struct TransformImagesParams {
    In_f32 x;
    In_f32x4 operations;
    In_f32x4 draws;
    Out_f32 y;
    uint count, height, width, channels, slots, slot, cutout;
    float centre_r, centre_g, centre_b, scale_r, scale_g, scale_b;
};

// A box to erase, in ERASING_DRAWS vec4s:
//   0: top, left, height, width in pixels; a height of 0: none
//   1: its colour in the network's values
#define ERASING_DRAWS 2u
#define MOST_ERASED_BOXES 8u

// What a box becomes
#define ERASING_CONST 0u // 0
#define ERASING_RAND 1u  // a normally distributed colour
#define ERASING_PIXEL 2u // normally distributed noise

// boxes[count, most, ERASING_DRAWS] of images of height x width, as timm's RandomErasing: with the
// probability given, 1 to `most` boxes. Areas and aspects are drawn as by draw_augmentations, but an aspect
// is height by width, and the boxes of an image share the area. A box is smaller than the image; ten tries,
// else there is none.
struct DrawErasingParams {
    In_u32x4 examples;
    Out_f32x4 boxes;
    uint seed_low, seed_high, count, height, width, most, mode;
    float probability;
    uint area_low, area_span;
    float area_unit, aspect_low, aspect_step;
};

// Where boxes overlap, the last one counts.
struct EraseBoxesParams {
    In_u32x4 examples;
    In_f32x4 boxes;
    InOut_f32 images; // [count, height, width, channels]
    uint seed_low, seed_high, count, height, width, channels, most, mode;
};

#endif
