// Files as memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace towers {

/// A regular file's bytes, read from the disk where they are looked at. Nobody may cut the file short
/// meanwhile: looking at what is gone ends the program. So use it briefly, to index a file.
class MappedFile {
public:
    /// Throws InputError as InputFile does.
    explicit MappedFile(const std::filesystem::path& path);
    MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
    MappedFile& operator=(MappedFile) = delete;
    ~MappedFile();

    std::span<const std::uint8_t> bytes() const { return bytes_; }

    /// Gives back the memory of the bytes before an offset, as seldom as is worth it, so that a pass through
    /// a large file needs little.
    void forget(std::size_t before);

private:
    std::span<const std::uint8_t> bytes_;
    std::size_t forgotten_ = 0;
};

} // namespace towers
