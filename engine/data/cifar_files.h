// What the binary versions of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html) have in
// common: files of records, each of one or two label bytes and 3 planes (red, green, blue) of 32x32 bytes,
// and files with a class name per line.
#pragma once

#include "engine/data/source.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace towers {

constexpr ImageSize cifar_image{32, 32, 3};

/// The files of a split, in order, and how their records are to be read.
struct CifarFiles {
    std::string name;                         ///< of the data set
    std::vector<std::filesystem::path> files; ///< of the records
    std::size_t most;                         ///< records in a file
    unsigned label_bytes, label;              ///< before the planes; which of them is wanted
    std::vector<std::string> classes;         ///< their names
};

/// InputError for a missing or empty file, one that is not whole records, more records in a file than
/// `most`, a label that no class has.
std::unique_ptr<DataSource> open_cifar(CifarFiles files);

/// Reads `count` class names from a file, or returns "" of each if there is no such file or it has another
/// number of names. `tell`: report such a number.
std::vector<std::string> read_class_names(const std::filesystem::path& path, std::size_t count, bool tell);

/// `folder` itself or the folder `archive` in it, whichever has one of these files; else an empty path.
std::filesystem::path find_cifar(const std::filesystem::path& folder, const char* archive,
                                 const std::vector<std::string>& files);

} // namespace towers
