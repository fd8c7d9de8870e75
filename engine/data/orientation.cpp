#include "engine/data/orientation.h"

#include <algorithm>

namespace towers {

namespace {

constexpr std::string_view exif_mark("Exif\0\0", 6), intel("II*\0", 4), motorola("MM\0*", 4);

std::string_view as_text(std::span<const std::uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<unsigned> in_exif(std::span<const std::uint8_t> exif) {
    const bool little = as_text(exif).starts_with(intel);
    if (!little && !as_text(exif).starts_with(motorola)) return std::nullopt;
    const auto number = [&](std::uint64_t at, unsigned bytes) { // 0 beyond the end
        std::uint32_t value = 0;
        for (unsigned i = 0; i < bytes && at + bytes <= exif.size(); ++i)
            value = value << 8 | exif[at + (little ? bytes - 1 - i : i)];
        return value;
    };
    constexpr unsigned orientation = 0x112, entry_bytes = 12, is_short = 3, is_long = 4;
    const std::uint64_t directory = number(4, 4);
    const unsigned entries = number(directory, 2);
    for (unsigned i = 0; i < entries; ++i) {
        const std::uint64_t entry = directory + 2 + std::uint64_t(i) * entry_bytes;
        if (number(entry, 2) != orientation) continue;
        const unsigned type = number(entry + 2, 2);
        return type == is_short ? number(entry + 8, 2) : type == is_long ? number(entry + 8, 4) : 1;
    }
    return std::nullopt;
}

/// `tiff:Orientation="6"` or `<tiff:Orientation>6</tiff:Orientation>`
std::optional<unsigned> in_xmp(std::string_view packet) {
    constexpr std::string_view name = "tiff:Orientation";
    for (std::size_t at = 0; (at = packet.find(name, at)) != packet.npos;) {
        at += name.size();
        const std::string_view rest = packet.substr(at, 3);
        const std::size_t digit = rest.starts_with("=\"") || rest.starts_with("='") ? 2
                                  : rest.starts_with('>')                           ? 1
                                                                                    : rest.size();
        if (digit < rest.size() && rest[digit] >= '0' && rest[digit] <= '9')
            return unsigned(rest[digit] - '0');
    }
    return std::nullopt;
}

} // namespace

bool begins_as_exif(std::string_view block) {
    return block.starts_with(exif_mark) || block.starts_with(intel) || block.starts_with(motorola);
}

void Orientation::add_exif(std::span<const std::uint8_t> block) {
    if (as_text(block).starts_with(exif_mark)) block = block.subspan(exif_mark.size());
    if (has_exif_ || block.empty()) return;
    has_exif_ = true;
    exif_ = in_exif(block);
}

void Orientation::add_xmp(std::string_view packet) {
    if (has_xmp_ || packet.empty()) return;
    has_xmp_ = true;
    xmp_ = in_xmp(packet);
}

unsigned Orientation::value() const {
    const unsigned value = exif_.value_or(xmp_.value_or(1));
    return value >= 1 && value <= 8 ? value : 1;
}

} // namespace towers
