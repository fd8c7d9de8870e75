// How a GPU backend configures launches of the tiled kernels' sources whose channels come in fours: by quads
// (shaders/gemm_quads.h), which is faster than the shared source, and by fragments
// (shaders/gemm_fragments.h), for matrix units.
#pragma once

#include "backends/launch/tiles.h"
#include "backends/launch/variants.h"

namespace towers {

/// The one with the lowest cost; none of none.
std::optional<LaunchConfig> cheapest(const std::vector<LaunchConfig>& configs);

/// Whether a workgroup of the device has the shared memory and the registers for a tile.
bool has_room(const Tile& tile, const DeviceFacts& facts);

/// Of a tiled kernel's launch, as the source by quads multiplies them
Products products_by_quads(const Launch& launch);

/// Takes a tiled kernel's launch if the channels of each group are multiples of 4.
std::optional<LaunchConfig> quads_config(const Launch& launch, const DeviceFacts& facts);
/// That one and others: with each tile, and some numbers of parts.
std::vector<LaunchConfig> quads_configs(const Launch& launch, const DeviceFacts& facts);

/// Whether the variant with this name multiplies by fragments, float32 operands in two parts.
bool is_by_fragments(std::string_view variant);
/// Whether the source by fragments multiplies operands of this type; fp32: in two parts
bool takes_fragments(Precision operands, const Fragments& fragments);
/// Whether a workgroup of the source by fragments has the shared memory for this, and its matrix units can
/// share it out
bool has_room_for_fragments(Kernel kernel, const Tile& tile, Precision operands, const DeviceFacts& facts);

/// Likewise of the source by fragments, where that is estimated to be faster, with operands of the precision
/// that the user allows, if the device has units for them. In float32, where it changes results, never.
std::optional<LaunchConfig> fragments_config(const Launch& launch, const DeviceFacts& facts);
/// Whether or not it is faster; of float32 in two parts too, unless products shall be exact.
std::vector<LaunchConfig> fragments_configs(const Launch& launch, const DeviceFacts& facts);

/// The one with the lowest cost of both sources, as far as estimates choose it
std::optional<LaunchConfig> product_config(const Launch& launch, const DeviceFacts& facts);

/// Takes convolutions that only their channels keep from the source by quads, if it is worth padding them to
/// fours (padded_stages() in backends/launch/stages.h); with groups they are never padded.
std::optional<LaunchConfig> padded_quads_config(const Launch& launch, const DeviceFacts& facts);
/// Whether or not it is worth it
std::vector<LaunchConfig> padded_quads_configs(const Launch& launch, const DeviceFacts& facts);

/// Takes the forward pass and the weights gradient of a convolution of few channels, such as a network's
/// first, if it is best to pad the rows of its windows instead (window_rows_stages()): five pixels of three
/// channels become 16 numbers, with padded channels 20.
std::optional<LaunchConfig> window_rows_config(const Launch& launch, const DeviceFacts& facts);
/// Whether or not it is best, if it makes sums shorter, and the rows need no more memory than the larger of
/// images and results
std::vector<LaunchConfig> window_rows_configs(const Launch& launch, const DeviceFacts& facts);

/// The same two ways with the source by fragments, which is taken as fragments_config() takes it
std::optional<LaunchConfig> padded_fragments_config(const Launch& launch, const DeviceFacts& facts);
std::vector<LaunchConfig> padded_fragments_configs(const Launch& launch, const DeviceFacts& facts);
std::optional<LaunchConfig> window_rows_by_fragments_config(const Launch& launch, const DeviceFacts& facts);
std::vector<LaunchConfig> window_rows_by_fragments_configs(const Launch& launch, const DeviceFacts& facts);

} // namespace towers
