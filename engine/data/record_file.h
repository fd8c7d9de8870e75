// TensorFlow's TFRecord files (tensorflow.org/tutorials/load_data/tfrecord): a sequence of records, each as
// its length (8 bytes), a checksum of these, its bytes, and a checksum of these. All numbers begin with their
// lowest byte; a checksum is a CRC-32C, rotated and shifted ("masked").
#pragma once

#include "backends/files/file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// Which record it is, for messages: `FILE, record 7`.
struct RecordName {
    const std::filesystem::path& file;
    std::size_t record;
    std::string text() const;
};

/// A record's bytes, with the checksum that follows them.
struct RecordView {
    std::uint64_t offset = 0; ///< in the file, unpacked
    std::span<const std::uint8_t> bytes = {};
    std::uint32_t checksum = 0;

    bool is_sound() const; ///< computes the checksum
};

/// A file of records, which keeps in memory what gzip has compressed, and nothing else.
class RecordFile {
public:
    /// Calls visit(record, view) for every record; the view's bytes last as long as the call. Checks the
    /// checksums of lengths, not those of records. `room`: the most bytes that an unpacked file may have,
    /// which it makes smaller by what this one takes. Throws InputError as InputFile and GzipFile do, and for
    /// a file that is none of records, is cut short, or has a record above 256 MiB.
    RecordFile(std::filesystem::path path, std::uint64_t& room,
               const std::function<void(const RecordName&, const RecordView&)>& visit);

    const std::filesystem::path& path() const { return path_; }

    /// Reads records from one thread.
    class Reader {
    public:
        explicit Reader(const RecordFile& from);
        /// The record of so many bytes at this offset; its bytes last until the next call. InputError when
        /// the file has become shorter, or the disk fails.
        RecordView read(std::uint64_t offset, std::uint32_t length);

    private:
        const RecordFile& from_;
        std::optional<InputFile> file_;
        std::vector<std::uint8_t> bytes_;
    };

private:
    std::filesystem::path path_;
    std::vector<std::uint8_t> unpacked_; ///< empty if the file is plain
    bool compressed_ = false;
};

/// Whether a file, perhaps compressed, begins with the length of a record. Never throws.
bool begins_with_a_record(const std::filesystem::path& file);

/// A record as a file holds it, with its length and checksums.
std::string framed(std::string_view record);

} // namespace towers
