// A file with the pictures of a data set, all of one size, in a form that is read as fast as memory or disk
// allow.
#pragma once

#include "engine/data/source.h"

#include <filesystem>

namespace towers {

/// Writes the pictures of a data set's training examples and, unless `test` is null, of its test examples,
/// which have the same classes and size, and label sets if those have some; the file appears whole or not at
/// all. Throws InputError when it cannot be written or an example cannot be read.
void write_packed(const DataSource& train, const DataSource* test, const std::filesystem::path& path);

} // namespace towers
