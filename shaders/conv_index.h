#ifndef TOWERS_SHADERS_CONV_INDEX_H
#define TOWERS_SHADERS_CONV_INDEX_H

// Where the rows and columns of a convolution's implicit matrices lie.

// A pixel of the output (or, going backward, of the input): its image and place
struct Pixel {
    uint image, y, x;
};

// A weight's row: its place in the kernel and its input channel (going backward, its output channel) in its group
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

// What output pixel `pixel` sees through `tap`, whose channel counts from `first_channel`. Unsigned wrap-around puts
// what lies above and left of the image beyond its end.
FUNCTION float image_at(In_f32 x, ConvShape shape, Pixel pixel, Tap tap, uint first_channel) {
    const uint row = pixel.y * shape.stride_y + tap.y * shape.dilation_y - shape.pad_top;
    const uint column = pixel.x * shape.stride_x + tap.x * shape.dilation_x - shape.pad_left;
    if (row >= shape.in_height || column >= shape.in_width) return 0.0f;
    return x.at[((pixel.image * shape.in_height + row) * shape.in_width + column) * shape.in_channels +
                first_channel + tap.channel];
}

#endif
