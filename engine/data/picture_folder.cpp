#include "engine/data/picture_folder.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace towers {

namespace {

namespace fs = std::filesystem;

template<std::size_t n>
bool ends_with_one_of(const std::string& name, const std::array<std::string_view, n>& ends) {
    return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// Hidden, or what systems make beside people's files: of repaired files, thumbnails, what was deleted.
bool is_of_the_system(const std::string& name) {
    constexpr std::array<std::string_view, 9> known{"lost+found",
                                                    "__MACOSX",
                                                    "@eaDir",
                                                    "#recycle",
                                                    "@Recycle",
                                                    "$RECYCLE.BIN",
                                                    "System Volume Information",
                                                    "Thumbs.db",
                                                    "desktop.ini"};
    return name.starts_with('.') || std::ranges::find(known, name) != known.end();
}

/// Calls visit(name, whether it is a folder) for what is in a folder, in any order, until that returns false.
bool list(const fs::path& folder, const std::function<bool(const std::string&, bool)>& visit) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        std::error_code unknown; // a link to nothing is no folder
        if (!is_of_the_system(name) && !visit(name, entry->is_directory(unknown))) return false;
    }
    if (error) throw_file_error("read", folder, error.value());
    return true;
}

void add(LeftInFolder& left, FileKind kind, const fs::path& path) {
    (kind == FileKind::no_picture ? left.others : left.pictures).add(path);
}

/// Goes through the JPEG, PNG and WebP files below a folder.
class Walk {
public:
    /// Visits at most `most` files and folders, and until visit() returns false.
    explicit Walk(std::function<bool(std::string)> visit,
                  std::size_t most = std::numeric_limits<std::size_t>::max())
        : visit_(std::move(visit)), left_(most) {}

    /// Has `tell` hear of folders that cannot be read, in place of an InputError.
    void pass_unreadable(std::function<void(const std::string&)> tell) { unreadable_ = std::move(tell); }

    /// Visits no folder twice, and real folders before links, so that the names do not depend on the disk.
    bool walk(const fs::path& folder, const std::string& below = "") {
        if (!pass(folder)) return true;
        std::vector<std::pair<bool, std::string>> folders; // whether it is a link, and its name
        const auto see = [&](const std::string& name, bool is_folder) {
            if (left_-- == 0) return false;
            if (!is_folder) {
                const FileKind kind = kind_of(name);
                if (kind == FileKind::picture) return visit_(below + name);
                if (left_over_ != nullptr) add(*left_over_, kind, folder / name);
                return true;
            }
            std::error_code error;
            folders.emplace_back(fs::is_symlink(folder / name, error), name);
            return true;
        };
        try {
            if (!list(folder, see)) return false;
        } catch (const InputError& error) {
            if (!unreadable_) throw;
            unreadable_(error.what());
        }
        std::ranges::sort(folders);
        return std::ranges::all_of(
            folders, [&](const auto& each) { return walk(folder / each.second, below + each.second + '/'); });
    }

    /// Adds the files of other kinds on the way to `left`.
    void collect(LeftInFolder& left) { left_over_ = &left; }

    /// Returns whether it was not visited before; it will not be again.
    bool pass(const fs::path& folder) {
        struct stat status {};
        return ::stat(folder.c_str(), &status) != 0 || seen_.emplace(status.st_dev, status.st_ino).second;
    }

private:
    std::function<bool(std::string)> visit_;
    std::function<void(const std::string&)> unreadable_;
    std::size_t left_;
    LeftInFolder* left_over_ = nullptr;
    std::set<std::pair<dev_t, ino_t>> seen_;
};

/// Looks for a picture, in what can be read.
class Search {
public:
    explicit Search(std::size_t most)
        : walk_(
              [this](const std::string&) {
                  found_ = true;
                  return false;
              },
              most) {
        walk_.pass_unreadable([](const std::string&) {}); // whoever opens it learns it
    }
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    Walk& walk() { return walk_; }
    bool found() const { return found_; }

private:
    Walk walk_;
    bool found_ = false;
};

constexpr std::size_t most_to_see = 10'000;

} // namespace

FileKind kind_of(const std::string& name) {
    constexpr std::array<std::string_view, 4> read{".jpg", ".jpeg", ".png", ".webp"};
    constexpr std::array<std::string_view, 10> others{".bmp",  ".gif",  ".tif", ".tiff", ".heic",
                                                      ".heif", ".avif", ".jp2", ".jxl",  ".jfif"};
    const std::string small = lower(name);
    return ends_with_one_of(small, read)     ? FileKind::picture
           : ends_with_one_of(small, others) ? FileKind::other_picture
                                             : FileKind::no_picture;
}

void FilesLeft::add(const fs::path& path) {
    constexpr std::size_t most = 10;
    ++count_;
    first_.insert(path.string());
    if (first_.size() > most) first_.erase(std::prev(first_.end()));
}

std::string FilesLeft::named(const fs::path& folder) const {
    const std::string names = listed(
        first_, [&](const std::string& path) { return fs::path(path).lexically_relative(folder).string(); });
    return first_.size() < count_ ? fmt::format("{} and {} more", names, count_ - first_.size()) : names;
}

std::vector<std::string> class_folders(const fs::path& folder) {
    std::vector<std::string> names;
    list(folder, [&](const std::string& name, bool is_folder) {
        if (is_folder) names.push_back(name);
        return true;
    });
    std::ranges::sort(names);
    return names;
}

std::vector<std::string> pictures_below(const fs::path& folder, LeftInFolder& left,
                                        const std::function<void(const std::string&)>& unreadable) {
    std::vector<std::string> names;
    Walk walk([&](std::string name) {
        names.push_back(std::move(name));
        return true;
    });
    walk.pass_unreadable(unreadable);
    walk.collect(left);
    // A link to a folder above is no class.
    for (const fs::path& above : {folder.parent_path(), folder.parent_path().parent_path()})
        if (above != folder) walk.pass(above); // "/" is above itself
    walk.walk(folder);
    std::ranges::sort(names);
    return names;
}

LeftInFolder files_beside_classes(const fs::path& folder) {
    LeftInFolder left;
    list(folder, [&](const std::string& name, bool is_folder) {
        if (!is_folder) add(left, kind_of(name), folder / name);
        return true;
    });
    return left;
}

bool holds_classes_of_pictures(const fs::path& folder) {
    Search search(most_to_see);
    search.walk().pass(folder);
    try {
        for (const std::string& name : class_folders(folder))
            if (!search.walk().walk(folder / name)) break;
    } catch (const InputError&) { // whoever opens it learns it
    }
    return search.found();
}

bool holds_pictures(const fs::path& folder) {
    Search search(most_to_see);
    search.walk().walk(folder);
    return search.found();
}

bool holds_pictures_itself(const fs::path& folder) {
    bool found = false;
    try {
        list(folder, [&](const std::string& name, bool is_folder) {
            found = !is_folder && kind_of(name) == FileKind::picture;
            return !found;
        });
    } catch (const InputError&) { // whoever opens it learns it
    }
    return found;
}

} // namespace towers
