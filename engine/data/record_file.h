// TensorFlow's TFRecord files (tensorflow.org/tutorials/load_data/tfrecord): a sequence of records, each as
// its length (8 bytes), a checksum of these, its bytes, and a checksum of these. All numbers begin with their
// lowest byte; a checksum is a CRC-32C, rotated and shifted ("masked").
#pragma once

#include "engine/files/gzip_file.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// Reads a file of records, plain or compressed by gzip, from the first to the last.
class RecordReader {
public:
    /// Throws InputError as GzipFile does.
    explicit RecordReader(const std::filesystem::path& path) : file_(path) {}

    /// Reads the next record; returns false at the end of the file. Throws InputError for a file that is none
    /// of records, is cut short or has a wrong checksum, and for a
    /// record above 256 MiB.
    bool read(std::vector<std::uint8_t>& record);

    /// Reads only the next record's length; nothing at the end of the file. read() does so itself.
    std::optional<std::uint64_t> read_length();

    /// `FILE, record 7`, the last one read, for messages.
    std::string place() const;

private:
    std::vector<std::uint8_t> take(std::uint64_t count);

    GzipFile file_;
    std::uint64_t records_ = 0; ///< read so far
};

/// A record as a file holds it, with its length and checksums.
std::string framed(std::string_view record);

} // namespace towers
