// The chunks of a PNG file beside those of its pixels.
#pragma once

#include "engine/data/picture_bytes.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace towers {

constexpr std::size_t png_mark_bytes = 8; ///< before the first chunk

struct PngChunk {
    static constexpr std::size_t frame_bytes = 12; ///< around the data: length, type and checksum

    std::uint64_t offset; ///< in the file
    std::uint32_t length; ///< of its data
    std::uint32_t type;   ///< four letters, the first one highest

    std::uint64_t end() const { return offset + frame_bytes + length; }
    /// Whether a picture can be shown without it.
    bool is_ancillary() const { return (type >> 24 & 0x20) != 0; }
};

/// The chunk at an offset; none if the file ends before its data begin, or it is longer than PNG allows.
std::optional<PngChunk> png_chunk_at(PictureBytes& bytes, std::uint64_t offset);

/// EXIF's orientation by what the chunks say, wherever they are: eXIf, else the Exif data that ImageMagick
/// and others keep as text, else XMP; 1 if they say nothing. Throws PictureError for such a chunk with
/// another checksum.
unsigned png_orientation(PictureBytes& bytes);

} // namespace towers
