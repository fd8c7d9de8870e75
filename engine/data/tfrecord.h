// TFRecord files of a data set's pictures.
#pragma once

#include "engine/data/source.h"

#include <filesystem>

namespace towers {

/// Writes a data set as records of tf.train.Example with the features image_raw (bytes
/// [height][width][channels]), height, width, depth, pixels (their product) and label. Atomically. InputError
/// when reading or writing fails.
void write_tfrecord(const DataSource& data, const std::filesystem::path& path);

} // namespace towers
