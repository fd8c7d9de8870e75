// Files that gzip may have compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

struct gzFile_s;

namespace towers {

/// A regular file open for reading, from its beginning to its end; what gzip has compressed arrives unpacked.
class GzipFile {
public:
    /// Throws InputError as InputFile does.
    explicit GzipFile(const std::filesystem::path& path);
    ~GzipFile();

    /// Fills `target` as far as the file goes and returns how many bytes that are. Throws InputError if the
    /// disk fails, or if gzip's data are damaged or cut short.
    std::size_t read(std::span<std::byte> target);

    /// The next bytes, at most this many. Needs memory for those that are there only, whatever `most` is.
    std::vector<std::uint8_t> read_up_to(std::size_t most);

    const std::filesystem::path& path() const { return path_; }

private:
    struct Closer {
        void operator()(gzFile_s* file) const;
    };
    std::filesystem::path path_;
    std::unique_ptr<gzFile_s, Closer> file_;
};

} // namespace towers
