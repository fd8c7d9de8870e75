// Files that are there whole or not at all.
#pragma once

#include "engine/files/file.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace towers {

/// Writes a file under a temporary name in the same folder and gives it its own name only once all of it is
/// on the disk. Whoever opens the path meanwhile, or after a crash at any moment, finds the earlier content
/// or the new one. Destroyed without commit(), also by an exception, it leaves no trace. What a symbolic link
/// points to is written, and the link stays.
class AtomicFile {
public:
    /// InputError when the folder does not take a new file.
    explicit AtomicFile(const std::filesystem::path& path);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    /// Appends. InputError when the disk is full or fails.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

    /// Syncs, renames and syncs the folder. InputError when that fails.
    void commit();

private:
    std::filesystem::path path_, temporary_;
    FileDescriptor file_;
    bool renamed_ = false;
};

/// The whole of it in one call.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The file name that a temporary file of this name was to become, or "" when it is no temporary's name. A
/// process that was killed leaves its temporary file behind.
std::string name_behind_temporary(std::string_view name);

} // namespace towers
