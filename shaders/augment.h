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

// Of a box's line at `line` in the antialiased line t of the image, in whole units: how near their centres
// are to each other, from 0 at the distance of a reduced image's line, or of a box's where the box is
// enlarged.
FUNCTION uint nearness(uint line, uint t, uint out_size, uint box) {
    const uint a = (2u * line + 1u) * out_size;
    const uint b = (2u * t + 1u) * box;
    const uint most = 2u * max(out_size, box);
    const uint apart = a > b ? a - b : b - a;
    return apart < most ? most - apart : 0u;
}

// The lines of a box that come into line t of the image: [near, far)
FUNCTION Between lines_about(uint t, uint out_size, uint box) {
    const uint centre = (2u * t + 1u) * box;
    const uint reach = 2u * max(out_size, box);
    Between between;
    between.near = centre < reach ? 0u : (centre - reach) / (2u * out_size);
    between.far = min((centre + reach) / (2u * out_size) + 1u, box);
    between.part = 0.0f;
    return between;
}

// As blended(), with a weight for every line that comes into the pixel's. Only of boxes within the record.
FUNCTION float averaged(In_u32 records, RecordStart start, AugmentShape shape, vec4 box, uint channel,
                        uint row, uint column) {
    const uint box_height = uint(box.z);
    const uint box_width = uint(box.w);
    const Between down = lines_about(row, shape.out_height, box_height);
    const Between across = lines_about(column, shape.out_width, box_width);
    float sum = 0.0f;
    uint weights_down = 0u;
    uint weights_across = 0u;
    for (uint y = down.near; y < down.far; ++y) {
        const uint weight = nearness(y, row, shape.out_height, box_height);
        float line = 0.0f;
        weights_across = 0u;
        for (uint x = across.near; x < across.far; ++x) {
            const uint part = nearness(x, column, shape.out_width, box_width);
            line += float(part) * value_at(records, start, shape, channel, uint(box.x) + y, uint(box.y) + x);
            weights_across += part;
        }
        sum += float(weight) * (line / float(weights_across));
        weights_down += weight;
    }
    return sum / float(weights_down);
}

// Pixel k of the image. `box` and `flip` are as draw_augmentations leaves them.
FUNCTION Colour colour_at(In_u32 records, uint slot, AugmentShape shape, vec4 box, float flip, uint k) {
    const uint flips = uint(flip);
    const uint to_row = k / shape.out_width;
    const uint column = k % shape.out_width;
    const uint row = (flips & FLIP_UPSIDE_DOWN) != 0u ? shape.out_height - 1u - to_row : to_row;
    const uint from = (flips & FLIP_LEFT_RIGHT) != 0u ? shape.out_width - 1u - column : column;
    const RecordStart start = record_start(slot, shape.channels * shape.height * shape.width);
    Colour colour;
    if (shape.antialias != 0u && (uint(box.z) != shape.out_height || uint(box.w) != shape.out_width)) {
        colour.r = averaged(records, start, shape, box, 0u, row, from);
        colour.g = colour.r;
        colour.b = colour.r;
        if (shape.channels == 3u) {
            colour.g = averaged(records, start, shape, box, 1u, row, from);
            colour.b = averaged(records, start, shape, box, 2u, row, from);
        }
        return colour;
    }
    const Between down = between_lines(row, shape.out_height, box.x, box.z, shape.height, shape.reflect);
    const Between across = between_lines(from, shape.out_width, box.y, box.w, shape.width, shape.reflect);
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

// One channel of the colour of hue h (in sextants), chroma and largest value; n: 5 red, 3 green, 1 blue
FUNCTION float channel_of_hue(float n, float h, float chroma, float largest) {
    const float at = n + h;
    const float k = at >= 6.0f ? at - 6.0f : at;
    const float slope = k < 4.0f - k ? k : 4.0f - k;
    return largest - chroma * (slope < 0.0f ? 0.0f : (slope > 1.0f ? 1.0f : slope));
}

FUNCTION Colour turned(Colour x, float turns) {
    const float largest = max(max(x.r, x.g), x.b);
    const float chroma = largest + max(max(-x.r, -x.g), -x.b);
    if (chroma == 0.0f) return x;
    float h = largest == x.r   ? (x.g - x.b) / chroma
              : largest == x.g ? 2.0f + (x.b - x.r) / chroma
                               : 4.0f + (x.r - x.g) / chroma;
    h += 6.0f * turns;
    h -= 6.0f * floor(h / 6.0f);
    Colour y;
    y.r = channel_of_hue(5.0f, h, chroma, largest);
    y.g = channel_of_hue(3.0f, h, chroma, largest);
    y.b = channel_of_hue(1.0f, h, chroma, largest);
    return y;
}

#endif
