#include "engine/data/picture_folder.h"

#include "engine/error.h"
#include "engine/files/file.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <functional>
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

/// Calls visit(name, whether it is a folder) for what is in a folder, in any order, until that returns false.
bool list(const fs::path& folder, const std::function<bool(const std::string&, bool)>& visit) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        std::error_code unknown; // a link to nothing is no folder
        if (!name.starts_with('.') && !visit(name, entry->is_directory(unknown))) return false;
    }
    if (error) throw_file_error("read", folder, error.value());
    return true;
}

/// Goes through the JPEG and PNG files below a folder.
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
                if (kind == FileKind::other_picture) others_.add(folder / name);
                return kind != FileKind::picture || visit_(below + name);
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

    /// The pictures of other formats on the way.
    const PicturesLeft& others() const { return others_; }

    /// Returns whether it was not visited before; it will not be again.
    bool pass(const fs::path& folder) {
        struct stat status {};
        return ::stat(folder.c_str(), &status) != 0 || seen_.emplace(status.st_dev, status.st_ino).second;
    }

private:
    std::function<bool(std::string)> visit_;
    std::function<void(const std::string&)> unreadable_;
    std::size_t left_;
    PicturesLeft others_;
    std::set<std::pair<dev_t, ino_t>> seen_;
};

} // namespace

FileKind kind_of(const std::string& name) {
    constexpr std::array<std::string_view, 3> read{".jpg", ".jpeg", ".png"};
    constexpr std::array<std::string_view, 11> others{".bmp",  ".gif",  ".webp", ".tif", ".tiff", ".heic",
                                                      ".heif", ".avif", ".jp2",  ".jxl", ".jfif"};
    const std::string small = lower(name);
    return ends_with_one_of(small, read)     ? FileKind::picture
           : ends_with_one_of(small, others) ? FileKind::other_picture
                                             : FileKind::no_picture;
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

std::vector<std::string> pictures_below(const fs::path& folder, PicturesLeft& others,
                                        const std::function<void(const std::string&)>& unreadable) {
    std::vector<std::string> names;
    Walk walk([&](std::string name) {
        names.push_back(std::move(name));
        return true;
    });
    walk.pass_unreadable(unreadable);
    // A link to a folder above is no class.
    for (const fs::path& above : {folder.parent_path(), folder.parent_path().parent_path()})
        if (above != folder) walk.pass(above); // "/" is above itself
    walk.walk(folder);
    if (others.count == 0) others.example = walk.others().example;
    others.count += walk.others().count;
    std::ranges::sort(names);
    return names;
}

PicturesLeft pictures_beside_classes(const fs::path& folder) {
    PicturesLeft left;
    list(folder, [&](const std::string& name, bool is_folder) {
        if (!is_folder && kind_of(name) != FileKind::no_picture) left.add(folder / name);
        return true;
    });
    return left;
}

bool holds_classes_of_pictures(const fs::path& folder) {
    bool found = false;
    try {
        Walk walk(
            [&](const std::string&) {
                found = true;
                return false;
            },
            10'000);
        walk.pass(folder);
        for (const std::string& name : class_folders(folder))
            if (!walk.walk(folder / name)) break;
    } catch (const InputError&) {
        // Whoever opens it learns it.
    }
    return found;
}

PictureFolders find_picture_folders(const fs::path& folder) {
    constexpr std::array<const char*, 4> tests{"val", "valid", "validation", "test"}; // the first one counts
    PictureFolders found;
    std::vector<std::string> names;
    try {
        names = class_folders(folder);
    } catch (const InputError&) {
        return found;
    }
    const auto named = [&](std::string_view wanted) {
        const auto name =
            std::ranges::find_if(names, [&](const std::string& each) { return lower(each) == wanted; });
        return name == names.end() ? fs::path() : folder / *name;
    };
    std::size_t splits = 0;
    for (const char* name : tests) {
        const fs::path path = named(name);
        splits += path.empty() ? 0 : 1;
        if (found.test.empty() && !path.empty() && holds_classes_of_pictures(path)) found.test = path;
    }
    found.train = named("train");
    if (names.size() > splits + 1 && !found.train.empty() && !holds_classes_of_pictures(found.train))
        found.train.clear(); // beside other folders it is a class, of trains
    found.split = !found.train.empty() || (splits > 0 && splits == names.size());
    if (!found.split) found = {.train = folder, .test = {}};
    return found;
}

} // namespace towers
