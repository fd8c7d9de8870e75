// A file that grows while a run lasts and that others read meanwhile.
#pragma once

#include "backends/files/file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace towers {

/// Appends whole entries, such as lines or records. After an InputError the file is as before the call, the
/// entries stay in memory, and the next call of append() or sync() writes them.
class AppendFile {
public:
    /// Creates the file, if it is missing, with the first entry.
    explicit AppendFile(std::filesystem::path path) : path_(std::move(path)) {}

    const std::filesystem::path& path() const { return path_; }

    /// Writes the entry at once, in one call, so that a concurrent reader sees whole entries.
    void append(std::string_view entry);
    /// The bytes that could not be written yet.
    std::size_t unwritten() const { return entries_.size() - written_; }
    /// Syncs all entries to the disk.
    void sync();
    /// Lets go of the file, which may then be replaced. Call it after sync().
    void close() { file_ = FileDescriptor(); }

private:
    void write();

    std::filesystem::path path_;
    FileDescriptor file_;
    std::string entries_;        ///< not known to be on the disk
    std::size_t written_ = 0;    ///< how many of their bytes are in the file
    std::uint64_t unsynced_ = 0; ///< where they begin in the file
};

} // namespace towers
