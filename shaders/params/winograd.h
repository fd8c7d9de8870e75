// The stages of Winograd's convolutions on GPUs (backends/launch/winograd.h)
#ifndef TOWERS_SHADERS_PARAMS_WINOGRAD_H
#define TOWERS_SHADERS_PARAMS_WINOGRAD_H

// Images, of which square tiles are transformed: `down` x `across` of each, `step` pixels apart. The first
// tile begins `top` rows above an image and `left` columns before it, either of which may be negative by
// unsigned wrap-around. `points` of the transform along each axis: 4, 6 or 8
struct WinogradTiles {
    uint batch, height, width, channels;
    uint down, across, step, top, left, points;
};
#define WINOGRAD_TILES(tiles) ((tiles).batch * (tiles).down * (tiles).across)

// v[tiles, points, points, channels]: of each tile its points x points pixels of x, zeros beyond the image,
// as the factor that weights are multiplied with
struct WinogradImagesParams {
    In_f32 x;
    Out_f32 v;
    WinogradTiles tiles;
};

// v[tiles, points, points, channels]: of each tile its step x step pixels of dy, zeros beyond the image, as
// the other factor of the weights' gradient
struct WinogradGradientsParams {
    In_f32 dy;
    Out_f32 v;
    WinogradTiles tiles;
};

// u[in_channels, points, points, out_channels] of w[taps, taps, in_channels, out_channels]; `mirrored`:
// u[out_channels, points, points, in_channels] of w turned by 180 degrees, for the gradient of the images
struct WinogradWeightsParams {
    In_f32 w;
    Out_f32 u;
    uint points, taps, in_channels, out_channels, mirrored;
};

// The step x step pixels of y of each tile, from products[tiles, points, points, channels]: relu?(results +
// b), where `bias` says whether there is a b; zeroed where mask <= 0 if `masked`. Without them b and mask may
// be null.
struct WinogradResultsParams {
    In_f32 products, b, mask;
    Out_f32 y;
    WinogradTiles tiles;
    uint bias, relu, masked;
};

// dw[taps, taps, in_channels, out_channels] from products[in_channels, points, points, out_channels]
struct WinogradWeightGradientsParams {
    In_f32 products;
    Out_f32 dw;
    uint points, taps, in_channels, out_channels;
};

#endif
