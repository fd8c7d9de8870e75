// Files that the user names for a result.
#pragma once

#include <filesystem>
#include <string_view>

namespace towers {

/// Whether the path means standard output: `-`, or a name of the very file, pipe or terminal that it is, such
/// as /dev/stdout.
bool is_standard_output(const std::filesystem::path& path);

/// Throws InputError when write_output() could not write there; leaves no trace.
void check_output(const std::filesystem::path& path);

/// Writes standard output as is_standard_output() has it. A regular file, also behind a symbolic link, is
/// replaced as AtomicFile does it; anything else (a device, a pipe) is written to. InputError when that
/// fails.
void write_output(const std::filesystem::path& path, std::string_view text);

} // namespace towers
