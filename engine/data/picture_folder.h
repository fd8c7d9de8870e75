// Folders of pictures: which files are in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace towers {

/// The folders of a data set whose pictures lie in one folder a class. Empty: there is none.
struct PictureFolders {
    std::filesystem::path train; ///< the set's own folder if its classes are not split
    std::filesystem::path test;
    bool split = false; ///< into train, and val, valid, validation or test
};

/// Looks at names only. Never throws.
PictureFolders find_picture_folders(const std::filesystem::path& folder);

/// Whether a folder's classes have pictures. Looks at a few thousand files at most, and never throws.
bool holds_classes_of_pictures(const std::filesystem::path& folder);

/// The names of a folder's folders, sorted as bytes, without hidden ones. InputError if it cannot be read.
std::vector<std::string> class_folders(const std::filesystem::path& folder);

/// The paths, below a folder, of the JPEG and PNG files in it and in its folders, sorted as bytes, by the
/// ends of their names in any case; without hidden files. Follows links, but enters no folder twice.
/// InputError if a folder cannot be read.
std::vector<std::string> pictures_below(const std::filesystem::path& folder);

} // namespace towers
