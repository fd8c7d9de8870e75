#ifndef TOWERS_SHADERS_CONV_INDEX_H
#define TOWERS_SHADERS_CONV_INDEX_H

// The indices of a convolution's implicit matrices.

// A pixel of the output (backward: of the input): its image and place
struct Pixel {
    uint image, y, x;
};

// A row of the weights: its place in the kernel, and its input channel (backward: its output channel) within
// its group
struct Tap {
    uint y, x, channel;
};

FUNCTION Pixel pixel_of(uint index, uint height, uint width) {
    Pixel pixel;
    pixel.image = index / (height * width);
    pixel.y = index / width % height;
    pixel.x = index % width;
    return pixel;
}

FUNCTION Tap tap_of(uint index, uint kernel_width, uint channels) {
    Tap tap;
    tap.channel = index % channels;
    tap.x = index / channels % kernel_width;
    tap.y = index / channels / kernel_width;
    return tap;
}

// The place `step` further on, where `step` is the place of a number of pixels (or rows): an addition without
// division
FUNCTION Pixel pixel_after(Pixel pixel, Pixel step, uint height, uint width) {
    pixel.x += step.x;
    const bool next_row = pixel.x >= width;
    pixel.x -= next_row ? width : 0u;
    pixel.y += step.y + (next_row ? 1u : 0u);
    const bool next_image = pixel.y >= height;
    pixel.y -= next_image ? height : 0u;
    pixel.image += step.image + (next_image ? 1u : 0u);
    return pixel;
}

FUNCTION Tap tap_after(Tap tap, Tap step, uint kernel_width, uint channels) {
    tap.channel += step.channel;
    const bool next_column = tap.channel >= channels;
    tap.channel -= next_column ? channels : 0u;
    tap.x += step.x + (next_column ? 1u : 0u);
    const bool next_row = tap.x >= kernel_width;
    tap.x -= next_row ? kernel_width : 0u;
    tap.y += step.y + (next_row ? 1u : 0u);
    return tap;
}

// The input that output pixel `pixel` sees through `tap`, whose channel counts from `first_channel`. By
// unsigned wrap-around, places above and left of the image compare as beyond its end.
FUNCTION float image_at(In_f32 x, ConvShape shape, Pixel pixel, Tap tap, uint first_channel) {
    const uint row = pixel.y * shape.stride_y + tap.y * shape.dilation_y - shape.pad_top;
    const uint column = pixel.x * shape.stride_x + tap.x * shape.dilation_x - shape.pad_left;
    if (row >= shape.in_height || column >= shape.in_width) return 0.0f;
    return x.at[((pixel.image * shape.in_height + row) * shape.in_width + column) * shape.in_channels +
                first_channel + tap.channel];
}

#endif
