// Writes files that exist whole or not at all.
#pragma once

#include "backends/files/file.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace towers {

/// Writes a file under a temporary name in the same folder and renames it once all of it is on the disk. A
/// reader of the path always finds either the old content or the new, even after a crash. Without commit(),
/// for example after an exception, nothing remains. If the path is a symbolic link, it replaces the link's
/// target and keeps the link.
class AtomicFile {
public:
    /// Throws InputError if the folder accepts no new file.
    explicit AtomicFile(const std::filesystem::path& path);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    /// Appends. Throws InputError if the disk is full or fails.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

    /// Syncs, renames and syncs the folder. Throws InputError if that fails.
    void commit();

private:
    std::filesystem::path path_, temporary_;
    FileDescriptor file_;
    bool renamed_ = false;
};

/// Writes a whole file atomically.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The final name of the temporary file with this name; "" if the name is not a temporary file's. A killed
/// process leaves its temporary file.
std::string name_behind_temporary(std::string_view name);

} // namespace towers
