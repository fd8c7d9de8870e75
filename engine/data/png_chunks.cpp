#include "engine/data/png_chunks.h"

#include "engine/data/orientation.h"
#include "engine/data/picture.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <zlib.h>

namespace towers {

namespace {

constexpr std::uint32_t type_of(std::string_view letters) {
    return std::uint32_t(letters[0]) << 24 | std::uint32_t(letters[1]) << 16 |
           std::uint32_t(letters[2]) << 8 | std::uint32_t(letters[3]);
}

constexpr std::uint32_t end_type = type_of("IEND"), exif_type = type_of("eXIf"), text_type = type_of("tEXt"),
                        packed_text_type = type_of("zTXt"), unicode_type = type_of("iTXt");

/// Larger chunks, and more of a text, are of no interest.
constexpr std::size_t most_bytes = std::size_t(4) << 20;

std::string_view as_text(std::span<const std::uint8_t> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::uint8_t> as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::uint32_t number(std::span<const std::uint8_t> bytes, std::size_t at) {
    return std::uint32_t(bytes[at]) << 24 | std::uint32_t(bytes[at + 1]) << 16 |
           std::uint32_t(bytes[at + 2]) << 8 | bytes[at + 3];
}

/// The data of a chunk; empty if it is too large or cut short. PictureError for another checksum than its
/// own.
std::span<const std::uint8_t> data_of(PictureBytes& bytes, const PngChunk& chunk) {
    if (chunk.length > most_bytes || chunk.end() > bytes.size()) return {};
    const std::size_t checked = sizeof(std::uint32_t) + chunk.length; // its type too
    const auto read = bytes.at(chunk.offset + 4, checked + 4);
    if (crc32(0, read.data(), uInt(checked)) != number(read, checked))
        throw PictureError(
            fmt::format("is damaged: its chunk {} has another checksum", as_text(read).substr(0, 4)));
    return read.subspan(sizeof(std::uint32_t), chunk.length);
}

/// What zlib has packed, as far as it can be unpacked.
std::string unpacked(std::string_view packed) {
    std::string text;
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) return text;
    std::array<char, 4096> piece;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data())); // which it only reads
    stream.avail_in = uInt(packed.size());
    for (int result = Z_OK; result == Z_OK && text.size() < most_bytes;) {
        stream.next_out = reinterpret_cast<Bytef*>(piece.data());
        stream.avail_out = uInt(piece.size());
        result = inflate(&stream, Z_NO_FLUSH);
        text.append(piece.data(), piece.size() - stream.avail_out);
    }
    inflateEnd(&stream);
    return text;
}

/// Takes what comes before the next zero from a text; all of it if there is none.
std::string_view take_part(std::string_view& text) {
    const std::string_view part = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    return part;
}

/// The text of a chunk, after its keyword.
std::string text_of(std::uint32_t type, std::string_view rest) {
    if (type == text_type) return std::string(rest);
    if (type == packed_text_type) return unpacked(rest.substr(std::min<std::size_t>(1, rest.size())));
    const bool is_packed = rest.starts_with('\1');
    rest.remove_prefix(std::min<std::size_t>(2, rest.size())); // and the method
    take_part(rest);                                           // the language
    take_part(rest);                                           // the keyword in it
    return is_packed ? unpacked(rest) : std::string(rest);
}

/// The bytes in a text such as "\nexif\n      34\n45786966...": a profile's name, its length, and hexadecimal
/// digits.
std::string bytes_of_profile(std::string_view text) {
    for (int line = 0; line < 3; ++line) {
        const std::size_t end = text.find('\n');
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    std::string bytes;
    unsigned digits = 0, value = 0;
    for (const char c : text) {
        const bool decimal = c >= '0' && c <= '9', small = c >= 'a' && c <= 'f', large = c >= 'A' && c <= 'F';
        if (!decimal && !small && !large) continue;
        value = value << 4 | unsigned(decimal ? c - '0' : small ? c - 'a' + 10 : c - 'A' + 10);
        if (++digits % 2 == 0) bytes += char(value & 0xff);
    }
    return bytes;
}

/// Collects what chunks say of the orientation.
class Collector {
public:
    void add(PictureBytes& bytes, const PngChunk& chunk) {
        if (chunk.type == exif_type) told_.add_exif(data_of(bytes, chunk));
        if (chunk.type == text_type || chunk.type == packed_text_type || chunk.type == unicode_type)
            add_text(bytes, chunk);
    }

    unsigned orientation() && {
        told_.add_exif(as_bytes(exif_)); // counts if no chunk was eXIf
        told_.add_xmp(xmp_);
        return told_.value();
    }

private:
    /// The first text of each keyword counts, so that no file has many unpacked.
    void add_text(PictureBytes& bytes, const PngChunk& chunk) {
        constexpr std::array<std::string_view, 4> known{"XML:com.adobe.xmp", "Raw profile type xmp",
                                                        "Raw profile type exif", "Raw profile type APP1"};
        constexpr std::size_t most_keyword = 79;
        std::string_view begin =
            as_text(bytes.at(chunk.offset + 8, std::min<std::size_t>(chunk.length, most_keyword + 1)));
        const auto keyword = std::ranges::find(known, take_part(begin));
        if (keyword == known.end() || !seen_.insert(*keyword).second) return;
        std::string_view rest = as_text(data_of(bytes, chunk));
        take_part(rest);
        std::string text = text_of(chunk.type, rest);
        if (keyword != known.begin()) text = bytes_of_profile(text);
        // APP1 is either, as in a JPEG. Of XMP, the first that says it counts.
        if (!begins_as_exif(text))
            xmp_ += text;
        else if (exif_.empty())
            exif_ = std::move(text);
    }

    Orientation told_;
    std::set<std::string_view> seen_;
    std::string exif_, xmp_;
};

} // namespace

std::optional<PngChunk> png_chunk_at(PictureBytes& bytes, std::uint64_t offset) {
    constexpr std::uint32_t most = 0x7fff'ffff;
    const auto head = bytes.at(offset, 2 * sizeof(std::uint32_t));
    if (head.size() < 2 * sizeof(std::uint32_t)) return std::nullopt;
    const PngChunk chunk{offset, number(head, 0), number(head, sizeof(std::uint32_t))};
    return chunk.length <= most ? std::optional(chunk) : std::nullopt;
}

unsigned png_orientation(PictureBytes& bytes) {
    Collector collector;
    std::uint64_t offset = png_mark_bytes;
    for (std::optional<PngChunk> chunk; (chunk = png_chunk_at(bytes, offset)) && chunk->type != end_type;
         offset = chunk->end())
        collector.add(bytes, *chunk);
    return std::move(collector).orientation();
}

} // namespace towers
