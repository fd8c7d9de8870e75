// The bytes of an encoded picture.
#pragma once

#include "backends/files/file.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// Bytes in memory, or in a file of which little more is read than is asked for.
class PictureBytes {
public:
    explicit PictureBytes(std::span<const std::uint8_t> bytes) : bytes_(bytes), size_(bytes.size()) {}
    /// The file must outlive it.
    explicit PictureBytes(const InputFile& file) : file_(&file), size_(file.size()) {}

    std::uint64_t size() const { return size_; }

    /// So many bytes from an offset on, fewer at the end. They last until the next call. InputError when the
    /// file fails.
    std::span<const std::uint8_t> at(std::uint64_t offset, std::size_t count);

private:
    const InputFile* file_ = nullptr;
    std::vector<std::uint8_t> read_;
    std::span<const std::uint8_t> bytes_; ///< from begin_ on
    std::uint64_t begin_ = 0, size_;
};

} // namespace towers
