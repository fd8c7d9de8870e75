// Folders of JPEG, PNG and WebP files, one folder a class: train/CLASS/*.jpg and val/CLASS/*.jpg, or
// CLASS/*.jpg.
#include "backends/error.h"
#include "engine/data/formats.h"
#include "engine/data/picture_folder.h"
#include "engine/data/picture_source.h"
#include "engine/data/picture_splits.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <unordered_map>
#include <utility>

namespace towers {
namespace {

namespace fs = std::filesystem;

constexpr const char* splits_option = "splits";

/// The folders of a request's source. With `?splits=none` all folders are classes.
PictureFolders folders_of(const DataRequest& request) {
    if (request.options.contains(splits_option)) return {.train = request.source, .test = {}};
    return find_picture_folders(request.source);
}

/// The folder that has a request's pictures, or an empty path.
fs::path folder_of(const DataRequest& request) {
    const PictureFolders found = folders_of(request);
    if (request.split == Split::train) return found.train;
    const bool all_in_one = !found.split && (request.held_out.any() || request.whole);
    return all_in_one ? found.train : found.test;
}

/// The names of the folder's classes; of a source for both splits, those of its training pictures.
std::vector<std::string> classes_of(const DataRequest& request) {
    const fs::path train = folders_of(request).train;
    const bool alone = train.empty() || (request.whole && !request.trained.empty());
    std::vector<std::string> names = class_folders(alone ? folder_of(request) : train);
    for (std::string& name : names) name = as_printable(name);
    if (const auto same = std::ranges::adjacent_find(names); same != names.end())
        throw InputError(fmt::format("{} has two folders that read {}; rename one of them",
                                     as_printable(request.source), *same));
    return names;
}

/// Says which pictures do not count, and to those who want to hear of all, which other files. `closed`: what
/// is wrong with each folder that cannot be read.
void tell_what_is_left(const DataRequest& request, const fs::path& folder, const LeftInFolder& below,
                       const std::vector<std::string>& closed) {
    const auto tell = [&](const FilesLeft& left, const char* thing, const char* why) {
        if (left.count() > 0)
            spdlog::warn("{}: {} left out: {}{}", as_printable(folder.string()),
                         count_of(left.count(), thing), as_printable(left.named(folder)), why);
    };
    const LeftInFolder beside = files_beside_classes(folder);
    tell(below.pictures, "picture", "; only names with .jpg, .jpeg, .png or .webp count: convert such files");
    tell(beside.pictures, "picture", "; only those in a class's folder count: move such files into one");
    if (request.left_out)
        for (const LeftInFolder* const left : {&below, &beside}) tell(left->others, "other file", "");
    if (!closed.empty())
        spdlog::warn("{}: the pictures in {} left out, such as: {}", as_printable(folder.string()),
                     count_of(closed.size(), "folder"), as_printable(closed[0]));
}

/// Says which classes have no pictures. They stay classes, since the labels of the others must not depend on
/// what is in them. Refuses them if there are no two others.
void tell_of_empty(const fs::path& folder, const std::vector<std::string>& empty, std::size_t classes) {
    if (empty.empty()) return;
    if (empty.size() + 1 >= classes)
        throw InputError(as_printable(fmt::format(
            "{} has pictures of one class only, since {} has no JPEG, PNG or WebP files; add some",
            folder.string(), (folder / empty[0]).string())));
    FilesLeft left;
    for (const std::string& name : empty) left.add(folder / name);
    const bool one = empty.size() == 1;
    spdlog::warn("{}: {} without JPEG, PNG or WebP files {} without examples: {}; remove {} if {} none",
                 as_printable(folder.string()), count_of(empty.size(), "folder"),
                 one ? "is a class" : "are classes", as_printable(left.named(folder)), one ? "it" : "them",
                 one ? "it is" : "they are");
}

/// The files of the classes in the folder, with their labels, as the request wants them.
PictureListing list_files(const DataRequest& request, const fs::path& folder,
                          const std::vector<std::string>& classes) {
    const bool training = request.split == Split::train;
    PictureListing listing{.folder = folder, .files = {}, .records = {}};
    LeftInFolder others;
    std::vector<std::string> empty, closed; // classes; what is wrong with folders that cannot be read
    std::unordered_map<std::string, std::uint32_t> labels;
    for (std::uint32_t i = 0; i < classes.size(); ++i) labels.emplace(classes[i], i);
    for (const std::string& name : class_folders(folder)) {
        const auto found = labels.find(as_printable(name));
        const std::vector<std::string> files = pictures_below(
            folder / name, others, [&](const std::string& problem) { closed.push_back(problem); });
        if (found == labels.end()) {
            if (files.empty()) continue;
            throw InputError(as_printable(fmt::format("{} is none of the {} classes of the training data; "
                                                      "call it as one of them, or remove it",
                                                      (folder / name).string(), classes.size())));
        }
        if (files.empty()) empty.push_back(name);
        for (const std::string& file : files) {
            std::string path = name + '/' + file;
            if (!is_in_split(path, request)) continue;
            listing.records.push_back({std::uint32_t(listing.files.size()), found->second});
            listing.files.push_back(std::move(path));
        }
    }
    // Those who open both splits of one folder hear it once.
    if (training || request.whole || folder != folders_of(request).train)
        tell_what_is_left(request, folder, others, closed);
    if (training && request.trained.empty()) tell_of_empty(folder, empty, classes.size());
    if (listing.files.empty())
        throw InputError(as_printable(fmt::format("{} has no {} pictures{}; add some", folder.string(),
                                                  training ? "training" : "test", with_held_out(request))));
    if (listing.files.size() > most_pictures)
        throw InputError(as_printable(folder.string()) + " has too many pictures; give a part of them");
    return listing;
}

std::unique_ptr<DataSource> open_pictures(const DataRequest& request) {
    if (const auto option = request.options.find(splits_option);
        option != request.options.end() && option->second != "none")
        throw InputError(as_printable(fmt::format("{}?{}={}: give '{}', so that all folders are classes",
                                                  request.source, splits_option, option->second,
                                                  with_option(request, splits_option, "none"))));
    const PictureFolders found = folders_of(request);
    if (!found.unclear.empty()) throw InputError(as_printable(found.unclear));
    const fs::path folder = folder_of(request);
    if (folder.empty() || !fs::is_directory(folder))
        throw InputError(as_printable(request.source) + " has no folders of pictures; give others");
    if (request.held_out.any() && found.split)
        throw InputError(
            fmt::format("{} has folders for training and testing already; leave out --hold-out or --fold",
                        as_printable(request.source)));
    const std::vector<std::string> classes = classes_of(request);
    if (classes.size() < 2 && request.trained.empty())
        throw InputError(
            fmt::format("{} has one class only ({}); give a folder to each of two classes or more",
                        as_printable(request.source), classes.empty() ? "none" : classes[0]));
    return open_listed(list_files(request, folder, classes), classes, request);
}

} // namespace

const DataFormat& pictures_format() {
    static constexpr DataFormat format{.key = "pictures",
                                       .name = "JPEG, PNG and WebP files (a folder for each class)",
                                       .more = {},
                                       .files = {"train/CLASS/*.jpg", "val/CLASS/*.jpg"},
                                       .options = {"size", splits_option},
                                       .holds_out = true,
                                       .recognizes =
                                           [](const DataRequest& request) {
                                               const fs::path folder = folder_of(request);
                                               return !folder.empty() && holds_classes_of_pictures(folder);
                                           },
                                       .open = open_pictures,
                                       .named = true};
    return format;
}

} // namespace towers
