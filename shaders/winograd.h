#ifndef TOWERS_SHADERS_WINOGRAD_H
#define TOWERS_SHADERS_WINOGRAD_H

// Winograd's transforms along one axis, by Toom and Cook, as in backends/cpu/winograd_transforms.h:
// polynomials are multiplied by their values at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity. With 4 or
// 6 points the pairs from 2 or 1/2 on are left out.

// Values along one axis: pixels or weights one after the other, or values at points in the above order. The
// place of infinity is always the last; what is left out is zero, or is not read.
#define WINOGRAD_PLACES 8u
struct WinogradLine {
    float at[WINOGRAD_PLACES];
};

FUNCTION bool winograd_has(uint place, uint points) {
    return place < points - 1u || place == WINOGRAD_PLACES - 1u;
}
// The place's number among the points
FUNCTION uint winograd_number(uint place, uint points) { return min(place, points - 1u); }

// The products of (x^2 - point^2) over all pairs, and over all but one: the coefficients of 1, x^2, x^4 and
// x^6
struct WinogradPolynomials {
    vec4 whole, without[3];
};

FUNCTION WinogradPolynomials winograd_polynomials(uint points) {
    WinogradPolynomials of;
    if (points == 4u) {
        of.whole = vec4(-1.0f, 1.0f, 0.0f, 0.0f);
        of.without[0] = vec4(1.0f, 0.0f, 0.0f, 0.0f);
        of.without[1] = vec4(0.0f);
        of.without[2] = vec4(0.0f);
    } else if (points == 6u) {
        of.whole = vec4(4.0f, -5.0f, 1.0f, 0.0f);
        of.without[0] = vec4(-4.0f, 1.0f, 0.0f, 0.0f);
        of.without[1] = vec4(-1.0f, 1.0f, 0.0f, 0.0f);
        of.without[2] = vec4(0.0f);
    } else {
        of.whole = vec4(-1.0f, 5.25f, -5.25f, 1.0f);
        of.without[0] = vec4(1.0f, -4.25f, 1.0f, 0.0f);
        of.without[1] = vec4(0.25f, -1.25f, 1.0f, 0.0f);
        of.without[2] = vec4(4.0f, -5.0f, 1.0f, 0.0f);
    }
    return of;
}

// The positive point of a pair, and its powers
FUNCTION float winograd_power(uint pair, uint exponent) {
    const float power = float(1u << exponent);
    return pair == 0u ? 1.0f : pair == 1u ? power : 1.0f / power;
}

// Pixels of the image -> points
FUNCTION WinogradLine winograd_image_line(WinogradLine d, WinogradPolynomials of) {
    WinogradLine v;
    v.at[0] = 0.0f;
    v.at[7] = 0.0f;
    UNROLL for (uint k = 0u; k < 4u; ++k) {
        v.at[0] = fma(of.whole[k], d.at[2u * k], v.at[0]);
        v.at[7] = fma(of.whole[k], d.at[2u * k + 1u], v.at[7]);
    }
    UNROLL for (uint pair = 0u; pair < 3u; ++pair) {
        float even = 0.0f;
        float odd = 0.0f;
        UNROLL for (uint k = 0u; k < 3u; ++k) {
            even = fma(of.without[pair][k], d.at[2u * k + 2u], even);
            odd = fma(of.without[pair][k], d.at[2u * k + 1u], odd);
        }
        odd *= winograd_power(pair, 1u);
        v.at[2u * pair + 1u] = even + odd;
        v.at[2u * pair + 2u] = even - odd;
    }
    return v;
}

// What divides the values of weights at the point 0, and at the pairs
FUNCTION vec4 winograd_scales(uint points) {
    if (points == 4u) return vec4(-1.0f, 0.5f, 0.0f, 0.0f);
    if (points == 6u) return vec4(0.25f, -1.0f / 6.0f, 1.0f / 24.0f, 0.0f);
    return vec4(-1.0f, -2.0f / 9.0f, 1.0f / 90.0f, 32.0f / 45.0f);
}

// Up to five weights (or pixels of dy), zeros after the last of `taps` -> points
FUNCTION WinogradLine winograd_weight_line(WinogradLine g, uint taps, vec4 scales) {
    WinogradLine u;
    u.at[0] = scales[0] * g.at[0];
    u.at[7] = g.at[0];
    UNROLL for (uint k = 1u; k < 5u; ++k) u.at[7] = k < taps ? g.at[k] : u.at[7];
    UNROLL for (uint pair = 0u; pair < 3u; ++pair) {
        const float square = winograd_power(pair, 2u);
        const float even = fma(fma(g.at[4], square, g.at[2]), square, g.at[0]);
        const float odd = winograd_power(pair, 1u) * fma(g.at[3], square, g.at[1]);
        u.at[2u * pair + 1u] = scales[pair + 1u] * (even + odd);
        u.at[2u * pair + 2u] = scales[pair + 1u] * (even - odd);
    }
    return u;
}

// Points, zeros for those that are left out -> up to five results, of which the last one of `results` adds
// infinity
FUNCTION WinogradLine winograd_result_line(WinogradLine m, uint results) {
    const float even_1 = m.at[1] + m.at[2];
    const float odd_1 = m.at[1] - m.at[2];
    const float even_2 = m.at[3] + m.at[4];
    const float odd_2 = m.at[3] - m.at[4];
    const float even_half = m.at[5] + m.at[6];
    const float odd_half = m.at[5] - m.at[6];
    WinogradLine y;
    y.at[0] = m.at[0] + even_1 + even_2 + even_half;
    y.at[1] = fma(0.5f, odd_half, fma(2.0f, odd_2, odd_1));
    y.at[2] = fma(0.25f, even_half, fma(4.0f, even_2, even_1));
    y.at[3] = fma(0.125f, odd_half, fma(8.0f, odd_2, odd_1));
    y.at[4] = fma(0.0625f, even_half, fma(16.0f, even_2, even_1));
    // Not `? y.at[j] + m.at[7] : y.at[j]`, of which SwiftShader's compiler takes gigabytes.
    UNROLL for (uint j = 1u; j < 5u; ++j) y.at[j] += j + 1u == results ? m.at[7] : 0.0f;
    return y;
}

// A tile: its image, and its first row and column, which may lie before the image by unsigned wrap-around
struct WinogradCorner {
    uint image, y, x;
};

FUNCTION WinogradCorner winograd_corner(uint tile, WinogradTiles tiles) {
    WinogradCorner corner;
    corner.image = tile / (tiles.down * tiles.across);
    corner.y = tile / tiles.across % tiles.down * tiles.step - tiles.top;
    corner.x = tile % tiles.across * tiles.step - tiles.left;
    return corner;
}

FUNCTION bool winograd_is_pixel(WinogradCorner corner, uint y, uint x, WinogradTiles tiles) {
    return corner.y + y < tiles.height && corner.x + x < tiles.width;
}

FUNCTION uint winograd_pixel(WinogradCorner corner, uint y, uint x, WinogradTiles tiles) {
    return (corner.image * tiles.height + corner.y + y) * tiles.width + corner.x + x;
}

#endif
