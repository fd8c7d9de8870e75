// Output files that the user names.
#pragma once

#include <filesystem>
#include <string_view>

namespace towers {

/// Whether the path is standard output: `-`, or another name of the same file, pipe or terminal, such as
/// /dev/stdout.
bool is_standard_output(const std::filesystem::path& path);

/// Throws InputError if write_output() could not write there. Changes nothing.
void check_output(const std::filesystem::path& path);

/// Writes to standard output if is_standard_output(). Replaces a regular file as AtomicFile does, through
/// symbolic links; writes into a device or pipe. Throws InputError if that fails.
void write_output(const std::filesystem::path& path, std::string_view text);

} // namespace towers
