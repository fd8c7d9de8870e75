// Mixup and CutMix: images that have a part of another example's.
#ifndef TOWERS_SHADERS_PARAMS_MIX_H
#define TOWERS_SHADERS_PARAMS_MIX_H

// mixed[count, height, width, channels] = images * (1 - part) + partner's image * part within a rectangle,
// else images. mixes[count] has of each example: its partner's number, the bits of `part`, the rectangle's
// top << 16 | left, and its height << 16 | width. A part of 0 leaves the example as it is, without a look at
// its partner. The partner's image is that with its number; with `apart`, images has [2 count], and the
// partner of image i is image count + i.
struct MixImagesParams {
    In_f32 images;
    In_u32x4 mixes;
    Out_f32 mixed;
    uint count, height, width, channels, apart;
};

#endif
