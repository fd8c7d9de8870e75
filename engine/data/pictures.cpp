// Folders of JPEG and PNG files, one folder a class: train/CLASS/*.jpg and val/CLASS/*.jpg, or CLASS/*.jpg.
// Only the index is in memory; pictures are decoded when they are read.
#include "backends/checksum.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/broken_pictures.h"
#include "engine/data/formats.h"
#include "engine/data/picture.h"
#include "engine/data/picture_folder.h"
#include "engine/data/picture_size.h"
#include "engine/data/picture_splits.h"
#include "engine/files/text.h"
#include "engine/plural.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <span>
#include <spdlog/spdlog.h>
#include <unordered_map>
#include <utility>

namespace towers {
namespace {

namespace fs = std::filesystem;

/// What is known of a data set's pictures without decoding them.
struct Index {
    fs::path folder;
    std::vector<std::string> files; ///< below the folder
    std::vector<std::uint32_t> labels;
    PictureSizes sizes;
    Checksum checksum; ///< of the files' names and sizes
};

class PictureSource final : public DataSource {
public:
    PictureSource(DataInfo info, Index index, const DataRequest& request)
        : DataSource(std::move(info), std::move(index.labels)), folder_(std::move(index.folder)),
          files_(std::move(index.files)), source_(request.source), broken_(request) {
        index.checksum.add(image_size().height);
        index.checksum.add(image_size().width);
        index.checksum.add(image_size().channels);
        checksum_ = index.checksum.value();
    }

    std::optional<std::uint64_t> fingerprint() const override { return checksum_; }
    std::string place_of(std::uint32_t record) const override { return (folder_ / files_[record]).string(); }

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        check_has_size(source_, image_size());
        const std::size_t bytes = image_size().elements();
        for (std::size_t i = 0; i < records.size(); ++i)
            read_picture(folder_ / files_[records[i]], images.subspan(i * bytes, bytes));
    }

private:
    void read_picture(const fs::path& path, std::span<std::uint8_t> image) const {
        try {
            const std::string text = read_file(path);
            prepare_picture({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, image_size(),
                            image);
        } catch (const PictureError& error) {
            broken_.stand_in(path.string(), error.what(), image);
        } catch (const InputError& error) { // unreadable or vanished
            if (!broken_.stands_in()) throw;
            broken_.stand_in(path.string(), fmt::format("({})", error.what()), image);
        }
    }

    fs::path folder_;
    std::vector<std::string> files_;
    std::string source_; ///< for messages
    std::uint64_t checksum_ = 0;
    mutable BrokenPictures broken_;
};

/// A picture's size, and its file's.
std::pair<ImageSize, std::uint64_t> read_size(const fs::path& path) {
    const InputFile file(path);
    check_file_size(file.size());
    return {picture_size(PictureBytes(file)), file.size()};
}

/// Whether a picture is held out for testing. Depends on its name only, so that it stays when others are
/// added.
bool is_held_out(const std::string& name, double part) {
    Checksum sum;
    sum.add(fnv1a(name));
    sum.add(0); // mixes the bits
    return double(sum.value() >> 11) * 0x1p-53 < part;
}

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
    const bool all_in_one = !found.split && (request.hold_out > 0 || request.whole);
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

/// Says which pictures do not count. `closed`: what is wrong with each folder that cannot be read.
void tell_what_is_left(const fs::path& folder, const PicturesLeft& others,
                       const std::vector<std::string>& closed) {
    const auto tell = [&](const PicturesLeft& left, const char* why) {
        if (left.count > 0)
            spdlog::warn("{}: {} left out, such as {}: {}", as_printable(folder.string()),
                         count_of(left.count, "picture"), as_printable(left.example.string()), why);
    };
    tell(others, "only names with .jpg, .jpeg or .png count; convert them");
    tell(pictures_beside_classes(folder), "only those in a class's folder count; move them into one");
    if (!closed.empty())
        spdlog::warn("{}: the pictures in {} left out, such as: {}", as_printable(folder.string()),
                     count_of(closed.size(), "folder"), as_printable(closed[0]));
}

/// Says which classes have no pictures. They stay classes, since the labels of the others must not depend on
/// what is in them. Refuses them if there are no two others.
void tell_of_empty(const fs::path& folder, const std::vector<std::string>& empty, std::size_t classes) {
    if (empty.empty()) return;
    if (empty.size() + 1 >= classes)
        throw InputError(as_printable(
            fmt::format("{} has pictures of one class only, since {} has no JPEG or PNG files; add some",
                        folder.string(), (folder / empty[0]).string())));
    const bool one = empty.size() == 1;
    spdlog::warn("{}: {} without JPEG or PNG files, such as {}, {} without examples; remove {} if {} none",
                 as_printable(folder.string()), count_of(empty.size(), "folder"), as_printable(empty[0]),
                 one ? "is a class" : "are classes", one ? "it" : "them", one ? "it is" : "they are");
}

/// The files of the classes in the folder, with their labels, as the request wants them.
Index list_files(const DataRequest& request, const fs::path& folder,
                 const std::vector<std::string>& classes) {
    const bool training = request.split == Split::train;
    Index index{.folder = folder};
    PicturesLeft others;
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
            const std::string path = name + '/' + file;
            if (request.hold_out > 0 && is_held_out(path, request.hold_out) == training) continue;
            index.files.push_back(path);
            index.labels.push_back(found->second);
        }
    }
    // Those who open both splits of one folder hear it once.
    if (training || request.whole || folder != folders_of(request).train)
        tell_what_is_left(folder, others, closed);
    if (training && request.trained.empty()) tell_of_empty(folder, empty, classes.size());
    if (index.files.empty())
        throw InputError(as_printable(fmt::format("{} has no {} pictures{}; add some", folder.string(),
                                                  training ? "training" : "test",
                                                  request.hold_out > 0 ? " with this --hold-out" : "")));
    if (index.files.size() > std::numeric_limits<std::uint32_t>::max() / 2)
        throw InputError(as_printable(folder.string()) + " has too many pictures; give a part of them");
    return index;
}

/// Reads every header, and leaves out pictures whose header is broken.
Index read_headers(Index listed, const DataRequest& request) {
    BrokenPictures broken(request);
    Index index{.folder = listed.folder};
    for (std::size_t i = 0; i < listed.files.size(); ++i) {
        const fs::path path = listed.folder / listed.files[i];
        try {
            const auto [size, bytes] = read_size(path);
            index.sizes.add(size);
            index.checksum.add(fnv1a(listed.files[i]));
            index.checksum.add(bytes);
            index.checksum.add(listed.labels[i]);
            index.files.push_back(std::move(listed.files[i]));
            index.labels.push_back(listed.labels[i]);
        } catch (const PictureError& error) {
            broken.leave_out(path.string(), error.what());
        } catch (const InputError& error) {
            if (!request.skip_broken) throw;
            broken.leave_out(path.string(), fmt::format("({})", error.what()));
        }
    }
    broken.report(request.source, listed.files.size());
    if (index.files.empty())
        throw InputError(fmt::format("{} has no picture that is sound{}; give others",
                                     as_printable(request.source), broken.example()));
    return index;
}

std::unique_ptr<DataSource> open_pictures(const DataRequest& request) {
    if (const auto option = request.options.find(splits_option);
        option != request.options.end() && option->second != "none")
        throw InputError(as_printable(
            fmt::format("{}?{}={}: give '{}?{}=none', so that all folders are classes", request.source,
                        splits_option, option->second, request.source, splits_option)));
    const PictureFolders found = folders_of(request);
    if (!found.unclear.empty()) throw InputError(as_printable(found.unclear));
    const fs::path folder = folder_of(request);
    if (folder.empty() || !fs::is_directory(folder))
        throw InputError(as_printable(request.source) + " has no folders of pictures; give others");
    if (request.hold_out > 0 && found.split)
        throw InputError(fmt::format("{} has folders for training and testing already; leave out --hold-out",
                                     as_printable(request.source)));
    const std::vector<std::string> classes = classes_of(request);
    if (classes.size() < 2 && request.trained.empty())
        throw InputError(
            fmt::format("{} has one class only ({}); give a folder to each of two classes or more",
                        as_printable(request.source), classes.empty() ? "none" : classes[0]));
    Index index = read_headers(list_files(request, folder, classes), request);
    DataInfo info{"pictures", classes, wanted_size(request, index.sizes), index.sizes.range()};
    return std::make_unique<PictureSource>(std::move(info), std::move(index), request);
}

} // namespace

const DataFormat& pictures_format() {
    static constexpr DataFormat format{.key = "pictures",
                                       .name = "JPEG and PNG files (a folder for each class)",
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
