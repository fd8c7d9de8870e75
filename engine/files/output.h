// Output files that the user names.
#pragma once

#include "backends/files/atomic_file.h"
#include "backends/files/file.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace towers {

/// Whether the path is standard output: `-`, or another name of the same file, pipe or terminal, such as
/// /dev/stdout.
bool is_standard_output(const std::filesystem::path& path);

/// Throws InputError if write_output() could not write there. Changes nothing.
void check_output(const std::filesystem::path& path);

/// Writes a large output piece by piece, with write_output()'s rules. Without commit(), a regular file stays
/// as it was.
class OutputFile {
public:
    /// Every member throws InputError if it fails.
    explicit OutputFile(const std::filesystem::path& path);
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    void commit();

private:
    std::filesystem::path path_;
    std::optional<AtomicFile> regular_;
    FileDescriptor special_; ///< neither: standard output
};

/// Writes to standard output if is_standard_output(). Replaces a regular file as AtomicFile does, through
/// symbolic links; writes into a device or pipe. Throws InputError if that fails.
void write_output(const std::filesystem::path& path, std::string_view text);

} // namespace towers
