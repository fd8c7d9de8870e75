// Files that exist whole or not at all.
#pragma once

#include "engine/files/file.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace towers {

/// Writes a file under a temporary name in the same folder and renames it only once all of it is on the disk.
/// A reader of the path, meanwhile or after a crash at any moment, finds either the old content or the new.
/// Without commit(), also after an exception, it leaves no trace. If the path is a symbolic link, it replaces
/// the link's target and keeps the link.
class AtomicFile {
public:
    /// InputError when the folder accepts no new file.
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

/// All of that in one call.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The name that a temporary file of this name would have taken, or "" when it is not a temporary file's
/// name. A killed process leaves its temporary file behind.
std::string name_behind_temporary(std::string_view name);

} // namespace towers
