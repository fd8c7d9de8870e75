// Folders of pictures: which files are in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <set>
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

/// Files that do not count, for a message.
class FilesLeft {
public:
    void add(const std::filesystem::path& path);
    std::size_t count() const { return count_; }
    /// `a, b and 3 more`: at most ten in the order of their bytes, below a folder in which all are.
    std::string named(const std::filesystem::path& folder) const;

private:
    std::size_t count_ = 0;
    std::set<std::string> first_;
};

/// What does not count in a folder.
struct LeftInFolder {
    FilesLeft pictures; ///< by the ends of their names
    FilesLeft others;
};

/// The paths, below a folder, of the JPEG, PNG and WebP files in it and in its folders, sorted as bytes;
/// without what class_folders() leaves out. Follows links, but enters no folder twice. Adds the other files
/// to `left`. `unreadable` hears of each folder that cannot be read; without it, that is an InputError.
std::vector<std::string> pictures_below(const std::filesystem::path& folder, LeftInFolder& left,
                                        const std::function<void(const std::string&)>& unreadable = {});

/// The files, pictures of any format among them, that lie in a folder itself, beside those of its classes.
LeftInFolder files_beside_classes(const std::filesystem::path& folder);

} // namespace towers
