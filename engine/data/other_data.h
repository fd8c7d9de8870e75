// Recognizes data that `towers` does not read, for messages.
#pragma once

#include "engine/data/source.h"

#include <filesystem>
#include <string>

namespace towers {

/// What lies at `path` instead of a split of a known format, and what to do: `is compressed by gzip; unpack
/// it
/// ...`.
/// "" if it is nothing known. Never throws for what cannot be read.
std::string describe_other_data(const std::filesystem::path& path, Split split);

} // namespace towers
