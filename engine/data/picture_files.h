#pragma once

#include "engine/data/source.h"

#include <filesystem>

namespace towers {

/// Writes each example as FOLDER/CLASS/NUMBER.png. A '/' in a class's name becomes '_'. Creates missing
/// folders. Throws InputError if a file cannot be written.
void write_picture_files(const DataSource& data, const std::filesystem::path& folder);

} // namespace towers
