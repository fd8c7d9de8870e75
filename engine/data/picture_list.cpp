#include "engine/data/picture_list.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/picture.h"
#include "engine/data/picture_folder.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <span>
#include <system_error>
#include <utility>

namespace towers {

namespace fs = std::filesystem;

namespace {

/// A path without the slash at its end, whose parent is the folder that it lies in.
fs::path as_entry(const fs::path& path) {
    const fs::path normal = path.lexically_normal();
    return normal.has_filename() || normal == normal.root_path() ? normal : normal.parent_path();
}

std::string read_picture_file(const fs::path& path) {
    const InputFile file(path);
    check_file_size(file.size());
    std::string bytes(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

} // namespace

std::vector<NamedPicture> pictures_at(const fs::path& path,
                                      const std::function<void(const std::string&)>& complain,
                                      const std::function<void(const std::string&)>& warn) {
    std::error_code unknown; // whoever reads it learns what is wrong
    if (!fs::is_directory(path, unknown)) return {{.name = path.string()}};
    bool readable = true;
    LeftInFolder others;
    std::vector<NamedPicture> pictures;
    for (const std::string& file : pictures_below(as_entry(path), others, [&](const std::string& problem) {
             readable = false;
             complain(problem);
         }))
        pictures.push_back({.name = (path / file).string()});
    const std::string left =
        others.pictures.count() == 0
            ? ""
            : fmt::format(
                  "{} left out: {}; only names with .jpg, .jpeg, .png or .webp count: convert such files",
                  count_of(others.pictures.count(), "picture"), others.pictures.named(as_entry(path)));
    if (pictures.empty() && readable)
        complain(fmt::format("{} has no JPEG, PNG or WebP files{}", path.string(),
                             left.empty() ? "; name another folder" : ", " + left));
    else if (!left.empty())
        warn(fmt::format("{}: {}", path.string(), left));
    return pictures;
}

std::vector<std::string> paths_in(std::string_view list) {
    if (list.starts_with("\xff\xfe") || list.starts_with("\xfe\xff")) // its byte order mark
        throw InputError("the list of pictures is UTF-16; write it as UTF-8");
    if (list.find('\0') == list.npos) return lines_in(list);
    std::vector<std::string> paths;
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t stop = std::min(list.find('\0', begin), list.size());
        if (stop > begin) paths.emplace_back(list.substr(begin, stop - begin));
        begin = stop + 1;
    }
    return paths;
}

PictureList::PictureList(std::vector<NamedPicture> pictures, ImageSize image)
    : DataSource({.name = "pictures", .classes = {}, .image = image},
                 std::vector<std::uint32_t>(pictures.size())),
      pictures_(std::move(pictures)) {}

std::string PictureList::problem(std::uint32_t record) const {
    const std::scoped_lock lock(mutex_);
    const auto found = problems_.find(record);
    return found == problems_.end() ? "" : found->second;
}

void PictureList::read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const {
    const std::size_t bytes = image_size().elements();
    for (std::size_t i = 0; i < records.size(); ++i) read(records[i], images.subspan(i * bytes, bytes));
}

void PictureList::read(std::uint32_t record, std::span<std::uint8_t> image) const {
    const NamedPicture& picture = pictures_[record];
    std::string problem;
    try {
        const std::string read = picture.is_file ? read_picture_file(picture.name) : std::string();
        check_file_size(picture.bytes.size());
        prepare_picture(bytes_of(picture.is_file ? read : picture.bytes), image_size(), image);
        return;
    } catch (const PictureError& error) {
        problem = fmt::format("{} {}", picture.name, error.what());
    } catch (const InputError& error) {
        problem = error.what();
    } catch (const std::bad_alloc&) {
        problem = fmt::format("{} needs more memory than there is", picture.name);
    }
    std::ranges::fill(image, std::uint8_t(128));
    const std::scoped_lock lock(mutex_);
    problems_[record] = as_printable(problem);
}

} // namespace towers
