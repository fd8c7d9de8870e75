#include "kernel.h"
#include "example.h"
#include "philox.h"

FUNCTION float number_between(uint word, float low, float high) { return low + unit(word) * (high - low); }

// In whole units, because a device that fuses a product with a sum would round another angle, and a pixel
// between two could go to the other one
FUNCTION float angle_between(uint word, float low, float high) {
    const float units = 32768.0f; // of a degree
    const int first = int(low * units), last = int(high * units);
    return float(first + int(mul_high(word, uint(last - first) + 1u))) * (1.0f / units);
}

// steps part / parts, rounded to the nearest, halves to even numbers
FUNCTION uint rounded_part(uint steps, uint part, uint parts) {
    const uint quotient = (2u * steps * part + parts) / (2u * parts);
    return (2u * steps * part + parts) % (2u * parts) == 0u ? quotient / 2u * 2u : quotient;
}

KERNEL(draw_operations, DrawOperationsParams, 256) {
    FOR_RANGE(i, p.count) {
        const Example example = example_at(p.examples, i);
        const vec4 nothing = vec4(0.0f);
        uint at = i * OPERATION_SLOTS(p) * OPERATION_DRAWS;
        if (p.rotation != 0u) {
            const Words words = philox(example.record, example.epoch, 0x140u, 0u, p.seed_low, p.seed_high);
            p.operations.at[at] =
                vec4(float(OPERATION_ROTATION), angle_between(words.a, p.rotation_low, p.rotation_high),
                     float(p.bilinear), 0.0f);
            p.operations.at[at + 1u] = nothing;
            at += OPERATION_DRAWS;
        }
        for (uint n = 0u; n < p.policy_operations; ++n) {
            const Words words =
                philox(example.record, example.epoch, 0x120u + n, 0u, p.seed_low, p.seed_high);
            const uint operation = 1u + mul_high(words.a, POLICY_OPERATIONS);
            const bool trivial = p.policy == POLICY_TRIVIAL_AUGMENT;
            const uint bin = trivial ? mul_high(words.c, p.bins) : p.magnitude;
            const uint last = p.bins - 1u;
            float magnitude = 0.0f;
            if (operation == OPERATION_SHEAR_X || operation == OPERATION_SHEAR_Y) {
                magnitude = float(bin) * p.shear_step;
            } else if (operation == OPERATION_TRANSLATE_X || operation == OPERATION_TRANSLATE_Y) {
                // In whole numbers, as only the whole part counts: to 150 / 331 of the side, or to 32 pixels
                // in 31 steps, of which torch.linspace computes the middle one as 15.999999
                const uint side = operation == OPERATION_TRANSLATE_X ? p.width : p.height;
                magnitude = !trivial     ? float(150u * side * bin / (331u * last))
                            : bin == 15u ? 15.0f
                                         : float(32u * bin / last);
            } else if (operation == OPERATION_ROTATE) {
                magnitude = float(bin) * p.rotate_step;
            } else if (operation >= OPERATION_BRIGHTNESS && operation <= OPERATION_SHARPNESS) {
                magnitude = float(bin) * p.factor_step;
            } else if (operation == OPERATION_POSTERIZE) {
                magnitude = float(8u - rounded_part(trivial ? 6u : 4u, bin, last));
            } else if (operation == OPERATION_SOLARIZE) {
                magnitude = float((255u * (last - bin) + last - 1u) / last);
            }
            const bool has_sign = operation >= OPERATION_SHEAR_X && operation <= OPERATION_SHARPNESS;
            if (has_sign && (words.b & 1u) != 0u) magnitude = -magnitude;
            p.operations.at[at] = vec4(float(operation), magnitude, 0.0f, 0.0f);
            p.operations.at[at + 1u] = nothing;
            at += OPERATION_DRAWS;
        }
        if (HAS_JITTER(p) != 0u) {
            const Words words = philox(example.record, example.epoch, 0x141u, 0u, p.seed_low, p.seed_high);
            uint parts = unit(words.a) < p.jitter_probability ? p.jitter : 0u;
            if (unit(words.b) < p.grayscale) parts |= AUGMENT_GRAYSCALE;
            const uint order = p.random_order != 0u ? mul_high(words.c, 24u) : 0u;
            p.operations.at[at] = vec4(float(parts != 0u ? OPERATION_JITTER : OPERATION_NONE), float(parts),
                                       float(order), 0.0f);
            p.operations.at[at + 1u] = p.draws.at[i * AUGMENT_DRAWS + 1u];
            at += OPERATION_DRAWS;
        }
        if (p.blur_taps != 0u) {
            const Words words = philox(example.record, example.epoch, 0x142u, 0u, p.seed_low, p.seed_high);
            const bool blurs = unit(words.a) < p.blur_probability;
            const float deviation = number_between(words.b, p.sigma_low, p.sigma_high);
            p.operations.at[at] = vec4(float(blurs ? OPERATION_BLUR_ROWS : OPERATION_NONE), deviation,
                                       float(p.blur_taps), 0.0f);
            p.operations.at[at + 1u] = nothing;
            p.operations.at[at + 2u] = vec4(float(blurs ? OPERATION_BLUR_COLUMNS : OPERATION_NONE), deviation,
                                            float(p.blur_taps), 0.0f);
            p.operations.at[at + 3u] = nothing;
        }
    }
}
