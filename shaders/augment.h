#ifndef TOWERS_SHADERS_AUGMENT_H
#define TOWERS_SHADERS_AUGMENT_H

#include "records.h"

// The image of an example's box: shared code of the augmentation's pixel kernels.
struct Colour {
    float r, g, b; // equal in an image with one channel
};

// Along one side of the image: the two neighbouring lines of the record and the further one's part
struct Between {
    uint near, far;
    float part;
};

// `size` means a line of padding.
FUNCTION uint line_of_record(int at, uint size, uint reflect) {
    if (at < 0) return reflect != 0u ? uint(-at) : size;
    if (uint(at) < size) return uint(at);
    return reflect != 0u ? 2u * (size - 1u) - uint(at) : size;
}

// The centre of pixel t lies (t + 1/2) box / out pixels into the box. Computed in whole units of 1 / (2 out)
// pixel, so that it is exact if the sizes agree.
FUNCTION Between between_lines(uint t, uint out_size, float first, float box, uint size, uint reflect) {
    Between between;
    if (uint(box) == out_size) { // as below, without divisions
        between.near = line_of_record(int(first) + int(t), size, reflect);
        between.far = between.near;
        between.part = 0.0f;
        return between;
    }
    const uint centre = (2u * t + 1u) * uint(box);
    const uint at = centre < out_size ? 0u : centre - out_size;
    const uint near = at / (2u * out_size);
    between.near = line_of_record(int(first) + int(near), size, reflect);
    between.far = line_of_record(int(first) + int(min(near + 1u, uint(box) - 1u)), size, reflect);
    between.part = float(at % (2u * out_size)) / float(2u * out_size);
    return between;
}

FUNCTION float value_at(In_u32 records, RecordStart start, AugmentShape shape, uint channel, uint row,
                        uint column) {
    if (row >= shape.height || column >= shape.width) return 0.0f;
    return float(byte_at(records, start, (channel * shape.height + row) * shape.width + column));
}

FUNCTION float blended(In_u32 records, RecordStart start, AugmentShape shape, uint channel, Between down,
                       Between across) {
    const float a = value_at(records, start, shape, channel, down.near, across.near);
    if (down.part == 0.0f && across.part == 0.0f) return a; // no resizing
    const float b = value_at(records, start, shape, channel, down.near, across.far);
    const float c = value_at(records, start, shape, channel, down.far, across.near);
    const float d = value_at(records, start, shape, channel, down.far, across.far);
    const float upper = a + (b - a) * across.part;
    const float lower = c + (d - c) * across.part;
    return upper + (lower - upper) * down.part;
}

// Pixel k of the image. `box` and `flip` are as draw_augmentations leaves them.
FUNCTION Colour colour_at(In_u32 records, uint slot, AugmentShape shape, vec4 box, float flip, uint k) {
    const uint row = k / shape.out_width;
    const uint column = k % shape.out_width;
    const uint from = flip != 0.0f ? shape.out_width - 1u - column : column;
    const Between down = between_lines(row, shape.out_height, box.x, box.z, shape.height, shape.reflect);
    const Between across = between_lines(from, shape.out_width, box.y, box.w, shape.width, shape.reflect);
    const RecordStart start = record_start(slot, shape.channels * shape.height * shape.width);
    Colour colour;
    colour.r = blended(records, start, shape, 0u, down, across);
    colour.g = colour.r;
    colour.b = colour.r;
    if (shape.channels == 3u) {
        colour.g = blended(records, start, shape, 1u, down, across);
        colour.b = blended(records, start, shape, 2u, down, across);
    }
    return colour;
}

FUNCTION float grey_of(Colour x, uint channels) {
    return channels == 3u ? 0.299f * x.r + 0.587f * x.g + 0.114f * x.b : x.r;
}

FUNCTION float clamp_byte(float x) { return x < 0.0f ? 0.0f : (x > 255.0f ? 255.0f : x); }

// Interpolates between two colours, or extrapolates
FUNCTION Colour mixed(float grey, Colour x, float factor) {
    Colour y;
    y.r = clamp_byte(grey + (x.r - grey) * factor);
    y.g = clamp_byte(grey + (x.g - grey) * factor);
    y.b = clamp_byte(grey + (x.b - grey) * factor);
    return y;
}

#endif
