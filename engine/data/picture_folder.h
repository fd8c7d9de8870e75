// Folders of pictures: which files are in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace towers {

/// Whether a folder's classes have pictures. Looks at a few thousand files at most, and never throws.
bool holds_classes_of_pictures(const std::filesystem::path& folder);

/// Whether there are pictures below a folder, or in the folder itself, likewise.
bool holds_pictures(const std::filesystem::path& folder);
bool holds_pictures_itself(const std::filesystem::path& folder);

/// The names of a folder's folders, sorted as bytes, without hidden ones and those that systems make, such as
/// lost+found. InputError if it cannot be read.
std::vector<std::string> class_folders(const std::filesystem::path& folder);

/// What a file is by the end of its name, in any case.
enum class FileKind {
    picture /**< JPEG or PNG */,
    other_picture /**< of a format that is not read */,
    no_picture
};
FileKind kind_of(const std::string& name);

/// Pictures that do not count.
struct PicturesLeft {
    std::size_t count = 0;
    std::filesystem::path example;

    void add(const std::filesystem::path& path) {
        if (count++ == 0) example = path;
    }
};

/// The paths, below a folder, of the JPEG and PNG files in it and in its folders, sorted as bytes; without
/// what class_folders() leaves out. Follows links, but enters no folder twice. Adds pictures of other formats
/// to `others`. `unreadable` hears of each folder that cannot be read; without it, that is an InputError.
std::vector<std::string> pictures_below(const std::filesystem::path& folder, PicturesLeft& others,
                                        const std::function<void(const std::string&)>& unreadable = {});

/// The pictures of any format that lie in a folder itself, beside those of its classes.
PicturesLeft pictures_beside_classes(const std::filesystem::path& folder);

} // namespace towers
