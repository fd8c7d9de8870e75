// The invocations of an image share memory, so its workgroup stays one where those of other kernels are subgroups.
#undef WORKGROUPS_ARE_SUBGROUPS
#include "kernel.h"
#include "affine.h"
#include "augment.h"
#include "wide.h"
#include "workgroup.h"

WORKGROUP_OF(256)

#define MOST_BLUR_WEIGHTS (MOST_BLUR_TAPS / 2u + 1u)
#if defined(TOWERS_GLSL) || defined(__CUDACC__)
shared uint counts[256];  // how often each byte occurs in a channel
shared uint results[256]; // what it becomes
shared float weights[MOST_BLUR_WEIGHTS];
#define DECLARE_COUNTS
#define DECLARE_WEIGHTS
#define WAIT_FOR_OTHERS barrier()
#else // the host, where a workgroup is one invocation
#define DECLARE_COUNTS                                                                                       \
    uint counts[256];                                                                                        \
    uint results[256];
#define DECLARE_WEIGHTS float weights[MOST_BLUR_WEIGHTS];
#define WAIT_FOR_OTHERS
#endif

// One image of y, and what becomes of its pixels after the operation
struct Target {
    uint begin, height, width, channels; // the first value
    uint cut_top, cut_left, cutout;
    float centre_r, centre_g, centre_b, scale_r, scale_g, scale_b;
};

FUNCTION bool is_cut(Target to, uint k) {
    // Unsigned differences: places before the square compare as far beyond it.
    return k / to.width - to.cut_top < to.cutout && k % to.width - to.cut_left < to.cutout;
}

FUNCTION void set_channel(Out_f32 y, Target to, uint k, uint channel, float value) {
    const float centre = channel == 0u ? to.centre_r : (channel == 1u ? to.centre_g : to.centre_b);
    const float scale = channel == 0u ? to.scale_r : (channel == 1u ? to.scale_g : to.scale_b);
    y.at[to.begin + k * to.channels + channel] =
        to.cutout != 0u && is_cut(to, k) ? 0.0f : (value - centre) * scale;
}

FUNCTION void set_pixel(Out_f32 y, Target to, uint k, Colour x) {
    set_channel(y, to, k, 0u, x.r);
    if (to.channels == 3u) {
        set_channel(y, to, k, 1u, x.g);
        set_channel(y, to, k, 2u, x.b);
    }
}

FUNCTION Colour pixel_of(In_f32 x, Target from, uint k) {
    const uint at = from.begin + k * from.channels;
    Colour colour;
    colour.r = x.at[at];
    colour.g = from.channels == 3u ? x.at[at + 1u] : colour.r;
    colour.b = from.channels == 3u ? x.at[at + 2u] : colour.r;
    return colour;
}

struct Bytes {
    uint r, g, b; // equal in an image with one channel
};

// Halves, which resizing makes often, go up, whatever the rounding of the device.
FUNCTION uint byte_of(float x) { return uint(clamp_byte(x) + 0.5001f); }

FUNCTION Bytes bytes_of(Colour x) {
    Bytes bytes;
    bytes.r = byte_of(x.r);
    bytes.g = byte_of(x.g);
    bytes.b = byte_of(x.b);
    return bytes;
}

FUNCTION Colour colour_of(Bytes x) {
    Colour colour;
    colour.r = float(x.r);
    colour.g = float(x.g);
    colour.b = float(x.b);
    return colour;
}

// torchvision's grey, without its fraction
FUNCTION uint grey_byte(Bytes x, uint channels) {
    return channels == 3u ? (2989u * x.r + 5870u * x.g + 1140u * x.b) / 10000u : x.r;
}

FUNCTION float float_grey(Colour x, uint channels) {
    return channels == 3u ? 0.2989f * x.r + 0.587f * x.g + 0.114f * x.b : x.r;
}

// A factor and what lies against it, in units of 2^-21, of which a byte's product has half the rounding of
// the factor: that half is added, so that a whole number stays one.
#define BLEND_ONE 2097152

FUNCTION int blend_factor(float magnitude) { return int(floor((1.0f + magnitude) * 2097152.0f + 0.5f)); }

// factor x + (1 - factor) z without its fraction; `against` is the second part
FUNCTION uint blended_byte(uint x, int factor, int against) {
    const int sum = (int(x) * factor + against + 128) >> 21;
    return uint(sum < 0 ? 0 : (sum > 255 ? 255 : sum));
}

FUNCTION Bytes blended_bytes(Bytes x, int factor, int against) {
    Bytes y;
    y.r = blended_byte(x.r, factor, against);
    y.g = blended_byte(x.g, factor, against);
    y.b = blended_byte(x.b, factor, against);
    return y;
}

// (1 - factor) sum / count: the quotient's fraction by long division, since those of devices are not exact
FUNCTION int against_mean(uint sum, uint count, int factor) {
    uint rest = sum % count;
    uint fraction = 0u;
    for (uint bit = 0u; bit < 18u; ++bit) {
        rest *= 2u;
        fraction *= 2u;
        if (rest >= count) {
            rest -= count;
            fraction += 1u;
        }
    }
    const int one = BLEND_ONE - factor;
    return one * int(sum / count) + ((one * int(fraction >> 9u) + (one * int(fraction & 511u) >> 9)) >> 9);
}

// 1 / d as IEEE rounds it
FUNCTION float exact_reciprocal(uint d) {
    uint quotient = 1u / d;
    uint rest = 1u % d;
    uint shift = 0u;
    while (quotient < 0x1000000u) { // to 25 bits, of which the last one is for rounding
        rest *= 2u;
        quotient *= 2u;
        if (rest >= d) {
            rest -= d;
            quotient += 1u;
        }
        ++shift;
    }
    const bool at_half = (quotient & 1u) != 0u;
    quotient >>= 1u;
    if (at_half && (rest != 0u || (quotient & 1u) != 0u)) ++quotient;
    return float(quotient) * as_float((128u - shift) << 23u);
}

FUNCTION void transform_by_place(In_f32 x, Out_f32 y, Target to, uint operation, float magnitude) {
    const uint pixels = to.height * to.width;
    const Affine affine = affine_of(operation, magnitude, to.height, to.width);
    for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
        const int row =
            affine_row(affine, k % to.width, k / to.width, to.height, to.width) >> (affine.bits + 1u);
        const int column =
            affine_column(affine, k % to.width, k / to.width, to.height, to.width) >> (affine.bits + 1u);
        Colour colour;
        colour.r = 0.0f;
        colour.g = 0.0f;
        colour.b = 0.0f;
        if (row >= 0 && uint(row) < to.height && column >= 0 && uint(column) < to.width)
            colour = colour_of(bytes_of(pixel_of(x, to, uint(row) * to.width + uint(column))));
        set_pixel(y, to, k, colour);
    }
}

FUNCTION Colour plus_part(Colour sum, In_f32 x, Target from, int row, int column, float part) {
    if (row < 0 || uint(row) >= from.height || column < 0 || uint(column) >= from.width) return sum;
    const Colour neighbour = pixel_of(x, from, uint(row) * from.width + uint(column));
    sum.r += neighbour.r * part;
    sum.g += neighbour.g * part;
    sum.b += neighbour.b * part;
    return sum;
}

FUNCTION float part_inside(int at, uint size, float part) {
    return (at >= 0 && uint(at) < size ? 1.0f - part : 0.0f) +
           (at + 1 >= 0 && uint(at + 1) < size ? part : 0.0f);
}

// As torchvision's rotate of floats with a fill of 0: near the edge, a bilinear value is multiplied by what
// of it lies inside, a second time.
FUNCTION void rotate_values(In_f32 x, Out_f32 y, Target to, float degrees, bool bilinear) {
    const uint pixels = to.height * to.width;
    const Affine affine = rotation_by(degrees, to.height, to.width);
    const int half_pixel = bilinear ? int(1u << affine.bits) : 0;
    const float to_part = 1.0f / float(2u << affine.bits);
    for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
        const int down = affine_row(affine, k % to.width, k / to.width, to.height, to.width) - half_pixel;
        const int across =
            affine_column(affine, k % to.width, k / to.width, to.height, to.width) - half_pixel;
        const int row = down >> (affine.bits + 1u);
        const int column = across >> (affine.bits + 1u);
        Colour sum;
        sum.r = 0.0f;
        sum.g = 0.0f;
        sum.b = 0.0f;
        if (bilinear) {
            const uint fraction = (2u << affine.bits) - 1u;
            const float low = float(uint(down) & fraction) * to_part;
            const float right = float(uint(across) & fraction) * to_part;
            const float mask = part_inside(row, to.height, low) * part_inside(column, to.width, right);
            sum = plus_part(sum, x, to, row, column, (1.0f - low) * (1.0f - right) * mask);
            sum = plus_part(sum, x, to, row, column + 1, (1.0f - low) * right * mask);
            sum = plus_part(sum, x, to, row + 1, column, low * (1.0f - right) * mask);
            sum = plus_part(sum, x, to, row + 1, column + 1, low * right * mask);
        } else {
            sum = plus_part(sum, x, to, row, column, 1.0f);
        }
        set_pixel(y, to, k, sum);
    }
}

// What depends on a pixel's own bytes, and on the image's mean grey
FUNCTION void transform_by_colour(In_f32 x, Out_f32 y, Target to, uint operation, float magnitude) {
    const uint pixels = to.height * to.width;
    const int factor = blend_factor(magnitude);
    int against = 0;
    if (operation == OPERATION_CONTRAST) {
        uint sum = 0u;
        for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE)
            sum += grey_byte(bytes_of(pixel_of(x, to, k)), to.channels);
        against = against_mean(workgroupAdd(uvec4(sum, 0u, 0u, 0u)).x, pixels, factor);
    }
    const uint dropped = operation == OPERATION_POSTERIZE ? 8u - uint(magnitude) : 0u;
    for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
        Bytes bytes = bytes_of(pixel_of(x, to, k));
        if (operation == OPERATION_BRIGHTNESS || operation == OPERATION_CONTRAST) {
            bytes = blended_bytes(bytes, factor, against);
        } else if (operation == OPERATION_COLOR) {
            if (to.channels == 3u)
                bytes = blended_bytes(bytes, factor, (BLEND_ONE - factor) * int(grey_byte(bytes, 3u)));
        } else if (operation == OPERATION_POSTERIZE) {
            bytes.r = bytes.r >> dropped << dropped;
            bytes.g = bytes.g >> dropped << dropped;
            bytes.b = bytes.b >> dropped << dropped;
        } else if (operation == OPERATION_SOLARIZE) {
            if (float(bytes.r) >= magnitude) bytes.r = 255u - bytes.r;
            if (float(bytes.g) >= magnitude) bytes.g = 255u - bytes.g;
            if (float(bytes.b) >= magnitude) bytes.b = 255u - bytes.b;
        }
        set_pixel(y, to, k, colour_of(bytes));
    }
}

// What a byte becomes depends on how often each byte occurs in its channel.
FUNCTION void transform_by_counts(In_f32 x, Out_f32 y, Target to, uint operation) {
    const uint pixels = to.height * to.width;
    DECLARE_COUNTS
    for (uint channel = 0u; channel < to.channels; ++channel) {
        for (uint v = LOCAL_ID; v < 256u; v += WORKGROUP_SIZE) counts[v] = 0u;
        WAIT_FOR_OTHERS;
        for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE)
            ADD_TO_SHARED(counts[byte_of(x.at[to.begin + k * to.channels + channel])], 1u);
        WAIT_FOR_OTHERS;
        if (LOCAL_ID == 0u) {
            uint least = 256u;
            uint most = 0u;
            for (uint v = 0u; v < 256u; ++v) {
                if (counts[v] == 0u) continue;
                least = min(least, v);
                most = v;
            }
            if (operation == OPERATION_EQUALIZE) {
                const uint step = (pixels - counts[most]) / 255u;
                uint below = 0u;
                for (uint v = 0u; v < 256u; ++v) {
                    if (step == 0u) {
                        results[v] = v;
                    } else {
                        results[v] = v == 0u ? 0u : min((below + step / 2u) / step, 255u);
                    }
                    below += counts[v];
                }
            } else {
                // As PyTorch divides, whose rounding decides which byte remains
                const float scale = least < most ? exact_reciprocal(most - least) * 255.0f : 1.0f;
                const uint from = least < most ? least : 0u;
                for (uint v = least; v <= most; ++v) results[v] = min(uint(float(v - from) * scale), 255u);
            }
        }
        WAIT_FOR_OTHERS;
        for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE)
            set_channel(y, to, k, channel,
                        float(results[byte_of(x.at[to.begin + k * to.channels + channel])]));
    }
}

// Of channel's value k, (8 neighbours + 5 times itself) / 13, rounded
FUNCTION uint smoothed_byte(In_f32 x, Target from, uint k, uint channel) {
    uint sum = 4u * byte_of(x.at[from.begin + k * from.channels + channel]);
    UNROLL for (uint line = 0u; line < 3u; ++line)
        UNROLL for (uint at = 0u; at < 3u; ++at)
            sum += byte_of(
                x.at[from.begin + (k + line * from.width + at - from.width - 1u) * from.channels + channel]);
    return (2u * sum + 13u) / 26u;
}

FUNCTION void sharpen(In_f32 x, Out_f32 y, Target to, float magnitude) {
    const uint pixels = to.height * to.width;
    const int factor = blend_factor(magnitude);
    for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
        const uint row = k / to.width;
        const uint column = k % to.width;
        const bool at_edge = row == 0u || row == to.height - 1u || column == 0u || column == to.width - 1u;
        for (uint channel = 0u; channel < to.channels; ++channel) {
            uint value = byte_of(x.at[to.begin + k * to.channels + channel]);
            if (!at_edge)
                value =
                    blended_byte(value, factor, (BLEND_ONE - factor) * int(smoothed_byte(x, to, k, channel)));
            set_channel(y, to, k, channel, float(value));
        }
    }
}

// The parts of a jitter in the order of this number, four bits each: the first numbers 0 to 3 in the order of
// their permutations
FUNCTION uint parts_in_order(uint order) {
    uint left = 0x3210u;
    uint sequence = 0u;
    uint orders = 6u; // of those that are left after this one
    for (uint n = 0u; n < 4u; ++n) {
        const uint at = 4u * (order / orders);
        sequence |= (left >> at & 15u) << (4u * n);
        left = (left & ((1u << at) - 1u)) | (left >> (at + 4u) << at);
        order %= orders;
        orders = n == 0u ? 2u : 1u;
    }
    return sequence;
}

// The first `count` parts in this order, as far as there are any
FUNCTION Colour jittered(Colour x, uint channels, uint parts, uint sequence, uint count, vec4 factors,
                         float mean) {
    for (uint n = 0u; n < count; ++n) {
        const uint part = 1u << (sequence >> (4u * n) & 15u);
        if ((parts & part) == 0u) continue;
        if (part == AUGMENT_BRIGHTNESS) {
            x = mixed(0.0f, x, factors.x);
        } else if (part == AUGMENT_CONTRAST) {
            x = mixed(mean, x, factors.y);
        } else if (part == AUGMENT_SATURATION) {
            if (channels == 3u) x = mixed(float_grey(x, channels), x, factors.z);
        } else if (channels == 3u) {
            x = turned(x, factors.w);
        }
    }
    return x;
}

FUNCTION void jitter(In_f32 x, Out_f32 y, Target to, uint parts, uint order, vec4 factors) {
    const uint pixels = to.height * to.width;
    const uint sequence = parts_in_order(order);
    float mean = 0.0f;
    if ((parts & AUGMENT_CONTRAST) != 0u) {
        uint before = 0u;
        while ((sequence >> (4u * before) & 15u) != 1u) ++before;
        Wide sum = wide_zero(); // in units of 2^-16
        for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
            const Colour colour =
                jittered(pixel_of(x, to, k), to.channels, parts, sequence, before, factors, mean);
            sum = wide_plus(sum, uint(float_grey(colour, to.channels) * 65536.0f + 0.5f));
        }
        const uvec4 words = workgroupAdd(uvec4(sum.low & 0xffffu, sum.low >> 16u, sum.high, 0u));
        sum = wide_sum(words.x, words.y, words.z);
        mean = (float(sum.high) * 65536.0f + float(sum.low) * (1.0f / 65536.0f)) / float(pixels);
    }
    for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
        Colour colour = jittered(pixel_of(x, to, k), to.channels, parts, sequence, 4u, factors, mean);
        if ((parts & AUGMENT_GRAYSCALE) != 0u) {
            colour.r = float_grey(colour, to.channels);
            colour.g = colour.r;
            colour.b = colour.r;
        }
        set_pixel(y, to, k, colour);
    }
}

// Mirrored about the outermost pixels, once
FUNCTION uint mirrored(int at, uint size) {
    return at < 0 ? uint(-at) : (uint(at) < size ? uint(at) : 2u * (size - 1u) - uint(at));
}

FUNCTION Colour plus_tap(Colour sum, In_f32 x, Target from, uint k, int away, bool rows, float weight) {
    const int row = int(k / from.width);
    const int column = int(k % from.width);
    return plus_part(sum, x, from, rows ? row : int(mirrored(row + away, from.height)),
                     rows ? int(mirrored(column + away, from.width)) : column, weight);
}

FUNCTION void blur(In_f32 x, Out_f32 y, Target to, float deviation, uint taps, bool rows) {
    const uint pixels = to.height * to.width;
    const uint side = taps / 2u;
    DECLARE_WEIGHTS
    WAIT_FOR_OTHERS; // nobody reads those of another image any more
    for (uint tap = LOCAL_ID; tap <= side; tap += WORKGROUP_SIZE) {
        const float away = float(tap) / deviation;
        weights[tap] = exp(-0.5f * away * away);
    }
    WAIT_FOR_OTHERS;
    float sum = 0.0f;
    for (uint tap = 0u; tap <= side; ++tap) sum += tap == 0u ? weights[tap] : 2.0f * weights[tap];
    for (uint k = LOCAL_ID; k < pixels; k += WORKGROUP_SIZE) {
        Colour blurred;
        blurred.r = 0.0f;
        blurred.g = 0.0f;
        blurred.b = 0.0f;
        blurred = plus_tap(blurred, x, to, k, 0, rows, weights[0] / sum);
        for (uint first = 1u; first <= side; first += 4u) { // by fours, for llvmpipe counts a loop's rounds
            UNROLL for (uint tap = first; tap < first + 4u; ++tap) {
                if (tap <= side) {
                    blurred = plus_tap(blurred, x, to, k, -int(tap), rows, weights[tap] / sum);
                    blurred = plus_tap(blurred, x, to, k, int(tap), rows, weights[tap] / sum);
                }
            }
        }
        set_pixel(y, to, k, blurred);
    }
}

FUNCTION void copy_image(In_f32 x, Out_f32 y, Target to) {
    for (uint k = LOCAL_ID; k < to.height * to.width; k += WORKGROUP_SIZE)
        set_pixel(y, to, k, pixel_of(x, to, k));
}

// A workgroup takes one image, whose operation all of its invocations do.
KERNEL(transform_images, TransformImagesParams, 256) {
    FOR_WORKGROUPS(i, p.count) {
        Target to;
        to.begin = i * p.height * p.width * p.channels;
        to.height = p.height;
        to.width = p.width;
        to.channels = p.channels;
        to.cutout = p.cutout;
        to.cut_top = 0u;
        to.cut_left = 0u;
        if (p.cutout != 0u) {
            const vec4 others = p.draws.at[i * AUGMENT_DRAWS + 2u];
            to.cut_top = uint(others.y);
            to.cut_left = uint(others.z);
        }
        to.centre_r = p.centre_r;
        to.centre_g = p.centre_g;
        to.centre_b = p.centre_b;
        to.scale_r = p.scale_r;
        to.scale_g = p.scale_g;
        to.scale_b = p.scale_b;
        const uint at = (i * p.slots + p.slot) * OPERATION_DRAWS;
        const vec4 drawn = p.operations.at[at];
        const uint operation = uint(drawn.x);
        if (operation == OPERATION_NONE) {
            copy_image(p.x, p.y, to);
        } else if (operation >= OPERATION_SHEAR_X && operation <= OPERATION_ROTATE) {
            transform_by_place(p.x, p.y, to, operation, drawn.y);
        } else if (operation == OPERATION_SHARPNESS) {
            sharpen(p.x, p.y, to, drawn.y);
        } else if (operation <= OPERATION_SOLARIZE) {
            transform_by_colour(p.x, p.y, to, operation, drawn.y);
        } else if (operation <= OPERATION_EQUALIZE) {
            transform_by_counts(p.x, p.y, to, operation);
        } else if (operation == OPERATION_ROTATION) {
            rotate_values(p.x, p.y, to, drawn.y, drawn.z != 0.0f);
        } else if (operation == OPERATION_JITTER) {
            jitter(p.x, p.y, to, uint(drawn.y), uint(drawn.z), p.operations.at[at + 1u]);
        } else {
            blur(p.x, p.y, to, drawn.y, uint(drawn.z), operation == OPERATION_BLUR_ROWS);
        }
    }
}
