// Files that the user names for a result.
#pragma once

#include <filesystem>
#include <string_view>

namespace towers {

/// Whether the path means standard output: `-`, or another name of the same file, pipe or terminal, such as
/// /dev/stdout.
bool is_standard_output(const std::filesystem::path& path);

/// Throws InputError when write_output() could not write there; leaves no trace.
void check_output(const std::filesystem::path& path);

/// Writes to standard output where is_standard_output() says so. Replaces a regular file, also behind a
/// symbolic link, as AtomicFile does; writes into anything else (a device, a pipe). InputError when that
/// fails.
void write_output(const std::filesystem::path& path, std::string_view text);

} // namespace towers
