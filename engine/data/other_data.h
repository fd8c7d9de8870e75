// Recognizes data that `towers` does not read, for messages.
#pragma once

#include <filesystem>
#include <string>

namespace towers {

/// What lies at `path` instead of data of a known format, and what to do: `is compressed by gzip; unpack it
/// ...`.
/// "" if it is nothing known. Never throws for what cannot be read.
std::string describe_other_data(const std::filesystem::path& path);

} // namespace towers
