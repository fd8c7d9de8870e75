#ifndef TOWERS_SHADERS_AFFINE_H
#define TOWERS_SHADERS_AFFINE_H

// Turned, sheared and shifted images: where a pixel comes from, in whole numbers, so that by the same angle all
// devices choose the same pixel where two are as near. They are exact to some 2^-22 of the side. Places are
// counted in half pixels from the middle of the image, times 2^bits.
struct Affine {
    int xx, xy, x1, yx, yy, y1; // from x: xx x + xy y + x1, from y: yx x + yy y + y1; x and y without 2^bits
    uint bits;
};

// Places of images of these sides take less than 31 bits, even after a shift by 64 pixels.
FUNCTION uint affine_bits(uint height, uint width) {
    const uint side = max(max(height, width), 64u);
    uint bits = 29u;
    while ((1u << (29u - bits)) < side) --bits;
    return bits;
}

FUNCTION Affine affine_identity(uint height, uint width) {
    Affine affine;
    affine.bits = affine_bits(height, width);
    affine.xx = int(1u << affine.bits);
    affine.yy = affine.xx;
    affine.xy = 0;
    affine.yx = 0;
    affine.x1 = 0;
    affine.y1 = 0;
    return affine;
}

// x 2^bits
FUNCTION int fixed_point(float x, uint bits) { return int(floor(x * float(1u << bits) + 0.5f)); }

// The sine and the cosine of an eighth of a turn at most, given in right angles times 2^32; both times 2^32,
// less one unit of rounding.
FUNCTION uint sine_of_eighth(uint angle) {
    const uint x = mul_high(angle, 3373259426u) << 1u; // pi / 2 2^31
    const uint square = mul_high(x, x);
    uint y = 0xffffffffu - mul_high(square, 59652324u); // 1 / 72
    y = 0xffffffffu - mul_high(mul_high(square, 102261126u), y);
    y = 0xffffffffu - mul_high(mul_high(square, 214748365u), y);
    y = 0xffffffffu - mul_high(mul_high(square, 715827883u), y);
    return mul_high(x, y);
}
FUNCTION uint cosine_of_eighth(uint angle) {
    const uint x = mul_high(angle, 3373259426u) << 1u;
    const uint square = mul_high(x, x);
    uint y = 0xffffffffu - mul_high(square, 47721859u); // 1 / 90
    y = 0xffffffffu - mul_high(mul_high(square, 76695845u), y);
    y = 0xffffffffu - mul_high(mul_high(square, 143165577u), y);
    y = 0xffffffffu - mul_high(mul_high(square, 357913941u), y);
    return 0xffffffffu - mul_high(square, y) / 2u;
}

#define RIGHT_ANGLE 377487360u // 90 degrees in units of 2^-22

// As torchvision's rotate: counter-clockwise by -360 to 360 degrees
FUNCTION Affine rotation_by(float degrees, uint height, uint width) {
    Affine affine = affine_identity(height, width);
    const uint angle = uint(int(degrees * 4194304.0f)) + 4u * RIGHT_ANGLE;
    const uint nearest = (angle + RIGHT_ANGLE / 2u) / RIGHT_ANGLE;
    const uint turns = nearest & 3u;
    const bool less = angle < nearest * RIGHT_ANGLE;
    const uint rest = less ? nearest * RIGHT_ANGLE - angle : angle - nearest * RIGHT_ANGLE;
    const uint size = mul_high(rest << 4u, 3054198967u); // 2^32 / RIGHT_ANGLE times 2^28
    const uint shift = 32u - affine.bits;
    int cosine = int((cosine_of_eighth(size) >> (shift - 1u)) + 1u) / 2;
    int sine = int((sine_of_eighth(size) >> (shift - 1u)) + 1u) / 2;
    if (less) sine = -sine;
    if (turns == 1u || turns == 3u) {
        const int other = cosine;
        cosine = -sine;
        sine = other;
    }
    if (turns >= 2u) {
        cosine = -cosine;
        sine = -sine;
    }
    affine.xx = cosine;
    affine.xy = -sine;
    affine.yx = sine;
    affine.yy = cosine;
    return affine;
}

// A policy's operation, as torchvision's
FUNCTION Affine affine_of(uint operation, float magnitude, uint height, uint width) {
    if (operation == OPERATION_ROTATE) return rotation_by(magnitude, height, width);
    Affine affine = affine_identity(height, width);
    if (operation == OPERATION_SHEAR_X) {
        affine.xy = fixed_point(magnitude, affine.bits);
        affine.x1 = affine.xy * int(height);
    } else if (operation == OPERATION_SHEAR_Y) {
        affine.yx = fixed_point(magnitude, affine.bits);
        affine.y1 = affine.yx * int(width);
    } else if (operation == OPERATION_TRANSLATE_X) {
        affine.x1 = -2 * int(magnitude) * affine.xx;
    } else {
        affine.y1 = -2 * int(magnitude) * affine.yy;
    }
    return affine;
}

// Where pixel (column, row) comes from, from the image's edge in pixels times 2^(bits + 1): the whole part is
// the number of the pixel that covers it.
FUNCTION int affine_column(Affine affine, uint column, uint row, uint height, uint width) {
    const int x = int(2u * column + 1u) - int(width);
    const int y = int(2u * row + 1u) - int(height);
    return affine.xx * x + affine.xy * y + affine.x1 + int(width << affine.bits);
}
FUNCTION int affine_row(Affine affine, uint column, uint row, uint height, uint width) {
    const int x = int(2u * column + 1u) - int(width);
    const int y = int(2u * row + 1u) - int(height);
    return affine.yx * x + affine.yy * y + affine.y1 + int(height << affine.bits);
}

#endif
