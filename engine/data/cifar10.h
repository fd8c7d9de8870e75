// The binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html) and data sets stored like it:
// data_batch_1.bin to data_batch_5.bin, test_batch.bin, and the class names in batches.meta.txt. A record is
// a label byte and 3 planes (red, green, blue) of 32x32 bytes.
#pragma once

#include "engine/data/source.h"

#include <filesystem>
#include <memory>

namespace towers {

/// Reads a split in `folder` or in the folder cifar-10-batches-bin in it. Class names are the ten lines of
/// batches.meta.txt, else the official ones. InputError for a missing or empty file, one that is not whole
/// records, more than 10,000 records in a file, a label above 9.
std::unique_ptr<DataSource> open_cifar10(const std::filesystem::path& folder, Split split);

/// Stores a data set of 32x32 colour images and ten classes, such that open_cifar10() gives back the same
/// images, labels and classes. Writes each file atomically; creates a missing folder. InputError when the
/// data set does not fit the format (train: 5 to 50,000 examples, test: 1 to 10,000) or writing fails.
void write_cifar10(const DataSource& data, Split split, const std::filesystem::path& folder);

} // namespace towers
