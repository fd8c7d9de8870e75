// Encoded pictures: JPEG, PNG and WebP, of any size.
#pragma once

#include "engine/data/picture_bytes.h"
#include "engine/data/source.h"

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace towers {

/// The most pixels of a picture: those beyond which Pillow sees a bomb. In colours 537 MB.
constexpr std::uint64_t most_picture_pixels = 178'956'970;

/// The most bytes of a picture's file.
constexpr std::uint64_t most_picture_bytes = std::uint64_t(512) << 20;

/// Why a picture cannot be read, to follow its name: `is neither JPEG, PNG nor WebP`.
class PictureError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Throws PictureError for a file with more than most_picture_bytes.
void check_file_size(std::uint64_t bytes);

/// Whether bytes begin as a JPEG, PNG or WebP does.
bool begins_as_picture(std::span<const std::uint8_t> bytes);

/// The size of a picture, upright as its orientation says, without decoding it; 1 channel if it is grey.
/// Throws PictureError for what is no picture, is cut short, or has no pixels or too many.
ImageSize picture_size(PictureBytes bytes);
inline ImageSize picture_size(std::span<const std::uint8_t> bytes) {
    return picture_size(PictureBytes(bytes));
}

/// Decodes a picture in full size to planes [channels][height][width], 1 or 3, as Pillow does: upright
/// (ImageOps.exif_transpose), converted to "L" or "RGB" (without alpha). Throws PictureError.
struct Picture {
    ImageSize size;
    std::vector<std::uint8_t> planes;
};
Picture decode_picture(std::span<const std::uint8_t> bytes, unsigned channels);

/// Fills `image` [channels][height][width] with a picture of another size: its largest box in the middle that
/// has the aspect of `size`, resized as Resizer does. A JPEG is decoded at the smallest eighths of its size
/// that are not below `size`; libjpeg rounds its
/// sides up, which moves it by less than half a pixel. Waits for other threads while pictures that are being
/// decoded take 1 GiB. Throws PictureError.
void prepare_picture(std::span<const std::uint8_t> bytes, ImageSize size, std::span<std::uint8_t> image);

} // namespace towers
