#ifndef TOWERS_SHADERS_AVERAGE_POOL_H
#define TOWERS_SHADERS_AVERAGE_POOL_H

// The part of an output pixel's window that lies in the image, and what its sum is divided by
struct AverageWindow {
    uint top, left, height, width;
    float divisor;
};

FUNCTION AverageWindow average_window(AveragePoolShape shape, uint row, uint column) {
    const uint y = row * shape.stride_y; // in the padded image
    const uint x = column * shape.stride_x;
    AverageWindow window;
    window.top = max(y, shape.pad_top) - shape.pad_top;
    window.left = max(x, shape.pad_left) - shape.pad_left;
    window.height = min(y + shape.window_height - shape.pad_top, shape.in_height) - window.top;
    window.width = min(x + shape.window_width - shape.pad_left, shape.in_width) - window.left;
    window.divisor = float(shape.padding_counts != 0u ? shape.window_height * shape.window_width
                                                      : window.height * window.width);
    return window;
}

#endif
