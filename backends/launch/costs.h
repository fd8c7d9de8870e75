// What launches take on a card: a model whose few numbers are properties of the kernels' machine code and of
// the memory behind them. They are fitted to the products of five recipes and to all variants of the
// tutorial's launches on CUDA on one card, an NVIDIA H200, 2026-11-26 (tests/fixtures/h200_variants.txt has
// the latter). They are not fitted to Vulkan's variants on that card, which only helped to choose the model's
// form, nor to ResNet-18 and 50 at 224. Those of products by fragments are fitted to a prototype's forward
// convolutions on the same card, which load, round and multiply alike, two or three tiles for each type.
#pragma once

#include "backends/launch/variants.h"

namespace towers {

/// The depth of the slices of which the tiled kernels' sources add up their products (TILE_K)
constexpr unsigned slice_depth = 16;

/// What a tiled kernel's source needs for each slice of a tile. Edges are the tile's rows and columns.
struct SourceCosts {
    /// Operations beside a multiply-add for each of the tile's elements: for each edge loads, and the work on
    /// their addresses; for the tile a barrier. All times the slice's depth.
    double per_edge, whole;
    /// Cycles in which a workgroup on its own waits for memory, before and after it computes
    double wait, wait_per_edge;
    double ends; ///< cycles that a workgroup waits before its first slice and after its last
    unsigned depth = slice_depth;
    double multiply_adds = 128; ///< that a processor executes in a cycle
    bool by_fragments = false;  ///< the tile is one of fragment_tiles
};

/// By quads (shaders/gemm_quads.h): the next slice's loads run beside a slice's products.
constexpr SourceCosts quads_costs{.per_edge = 21.5, .whole = 505, .wait = 336, .wait_per_edge = 0, .ends = 0};
/// The shared source (shaders/gemm_tile.h). That of the gradient of the images divides addresses by strides.
constexpr SourceCosts shared_costs(Kernel kernel) {
    return {.per_edge = kernel == Kernel::conv2d_backward_data ? 136.0 : 20.0,
            .whole = 0,
            .wait = 520,
            .wait_per_edge = 15.3,
            .ends = 3380};
}

/// By fragments (shaders/gemm_fragments.h): what operands weigh while they are loaded and rounded. Slices are
/// two fragments deep, those of float32 operands, in two parts, one.
constexpr SourceCosts fragments_costs(Precision operands) {
    if (operands == Precision::fp32)
        return {.per_edge = 16.5,
                .whole = 1240,
                .wait = 50,
                .wait_per_edge = 0,
                .ends = 500,
                .depth = 16,
                .multiply_adds = 301,
                .by_fragments = true};
    if (operands == Precision::tf32)
        return {.per_edge = 18.5,
                .whole = 1160,
                .wait = 200,
                .wait_per_edge = 0,
                .ends = 500,
                .depth = 16,
                .multiply_adds = 372,
                .by_fragments = true};
    return {.per_edge = 48,
            .whole = 2325,
            .wait = 315,
            .wait_per_edge = 0,
            .ends = 500,
            .depth = 32,
            .multiply_adds = 744,
            .by_fragments = true};
}

/// How many cycles products take on a card; the sum of the parts included.
double cycles_of(const Products& products, const Tile& tile, unsigned splits, const SourceCosts& costs,
                 const DeviceFacts& facts);
/// Likewise if nothing waited and all processors had the same work: what the card cannot do meanwhile.
double busy_cycles_of(const Products& products, const Tile& tile, unsigned splits, const SourceCosts& costs,
                      const DeviceFacts& facts);
/// Of one stage more: a barrier, and a launch that reads and writes so many floats in all.
double cycles_of_stage(double floats, const DeviceFacts& facts);
/// Likewise of one that adds up the parts of so many elements, which have an invocation each.
double cycles_of_sum(double elements, unsigned parts, const DeviceFacts& facts);

} // namespace towers
