#include "engine/data/picture_bytes.h"

#include <algorithm>

namespace towers {

std::span<const std::uint8_t> PictureBytes::at(std::uint64_t offset, std::size_t count) {
    constexpr std::size_t least = 4096; // most headers are shorter
    if (offset >= size_) return {};
    const std::size_t length = std::min<std::uint64_t>(count, size_ - offset);
    if (offset < begin_ || offset + length > begin_ + bytes_.size()) { // only a file's
        read_.resize(std::min<std::uint64_t>(std::max(length, least), size_ - offset));
        file_->read(offset, std::as_writable_bytes(std::span(read_)));
        bytes_ = read_;
        begin_ = offset;
    }
    return bytes_.subspan(offset - begin_, length);
}

} // namespace towers
