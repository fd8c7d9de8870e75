// Where the program keeps what it would only compute again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace towers {

/// The program's folder in the user's cache, which may not exist yet; empty: the user has none.
std::filesystem::path cache_folder();

/// What write_cached() has written to this file; nothing if it is missing, not as it was written, or
/// something else.
std::optional<std::string> read_cached(const std::filesystem::path& file);

/// Writes a file that exists whole or not at all, also after a crash and when several programs write it at
/// once. Makes its folder, and removes what killed programs have left of the file. Throws InputError, and
/// then leaves the file as it was.
void write_cached(const std::filesystem::path& file, std::string_view content);

} // namespace towers
