// Which way up a picture is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace towers {

/// Whether a block of data is Exif's: `Exif\0\0`, or TIFF's header.
bool begins_as_exif(std::string_view block);

/// Collects what a picture's file says of its orientation, as Pillow reads it: the first block of Exif
/// counts, and XMP where that says nothing.
class Orientation {
public:
    /// A block of Exif's data: TIFF's header and directory, perhaps after `Exif\0\0`. An empty one is none.
    /// Trusts no offset.
    void add_exif(std::span<const std::uint8_t> block);
    /// A packet of XMP, likewise.
    void add_xmp(std::string_view packet);

    /// EXIF's orientation, 1 to 8. 1: as stored.
    unsigned value() const;

private:
    bool has_exif_ = false, has_xmp_ = false;
    std::optional<unsigned> exif_, xmp_;
};

/// Whether an orientation turns height into width.
constexpr bool turns(unsigned orientation) { return orientation >= 5; }

} // namespace towers
