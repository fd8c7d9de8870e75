// Files of tf.train.Example records with the pixels of pictures, such as those of TensorFlow's MNIST
// examples: a picture's bytes [height][width][channels] under one name, its label under another, and perhaps
// its size.
#include "engine/data/tfrecord.h"

#include "engine/data/formats.h"
#include "engine/data/record_file.h"
#include "engine/data/tf_example.h"
#include "engine/error.h"
#include "engine/files/atomic_file.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <protozero/exception.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

bool has_any(const std::string& name, std::initializer_list<const char*> parts) {
    return std::ranges::any_of(parts, [&](const char* part) { return name.find(part) != name.npos; });
}

/// The files that a source names: itself, those that match a pattern, or a folder's files of records; sorted.
std::vector<fs::path> all_files(const std::string& source) {
    std::vector<fs::path> files;
    std::error_code error; // what cannot be examined counts as absent
    if (fs::is_directory(source, error)) {
        for (fs::directory_iterator entry(source, error), end; !error && entry != end; entry.increment(error))
            if (has_any(entry->path().filename().string(), {"tfrecord", "tfrec"}))
                files.push_back(entry->path());
    } else if (fs::is_regular_file(source, error)) {
        files.emplace_back(source);
    } else if (has_any(source, {"*", "?", "["})) {
        glob_t found{};
        if (glob(source.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
            files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
        globfree(&found);
    }
    std::ranges::sort(files);
    return files;
}

/// The source's files of the request's split, by their names; all files if the source is for this split alone
/// and no name tells them apart, or if it is a single file to train on.
std::vector<fs::path> find_files(const DataRequest& request) {
    const std::vector<fs::path> files = all_files(request.source);
    const bool training = request.split == Split::train;
    if (training && files.size() == 1 && files[0] == request.source) return files;
    const auto is_of_split = [&](const fs::path& file) {
        const std::string name = file.filename().string();
        const bool test = has_any(name, {"test", "val", "t10k", "eval"}), train = has_any(name, {"train"});
        return training ? !test || train : test && !train;
    };
    std::vector<fs::path> of_split;
    std::ranges::copy_if(files, std::back_inserter(of_split), is_of_split);
    return request.whole && of_split.empty() ? files : of_split;
}

bool begins_with_a_record(const fs::path& file) {
    try {
        return RecordReader(file).read_length().has_value();
    } catch (const InputError&) {
        return false;
    }
}

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
    throw InputError(fmt::format("{} {}", place, what));
}

std::string names_in(const TfExample& example) {
    std::vector<std::string> names;
    for (const auto& [name, feature] : example) names.push_back(as_printable(name));
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// Finds the features of a data set's examples by the names that are wished for or known.
class Columns {
public:
    explicit Columns(const DataRequest& request) : request_(request) {}

    struct Picture {
        std::string_view bytes; ///< [height][width][channels]
        ImageSize size;
        std::uint32_t label;
    };
    Picture read(const TfExample& example, const std::string& place) const {
        Picture picture{};
        const TfFeature& image = find(example, place, "image", {"image_raw", "image/encoded", "image"});
        if (image.bytes.size() != 1)
            refuse(place, fmt::format("has {} images; each record has one", image.bytes.size()));
        picture.bytes = image.bytes[0];
        const TfFeature& label = find(example, place, "label", {"label", "image/class/label"});
        if (label.whole.size() != 1 || label.whole[0] < 0 || label.whole[0] >= most_classes)
            refuse(place, fmt::format("has no label from 0 to {}", most_classes - 1));
        picture.label = std::uint32_t(label.whole[0]);
        picture.size = size_of(example, picture.bytes, place);
        return picture;
    }

private:
    static constexpr std::int64_t most_classes = 1 << 20;

    const TfFeature& find(const TfExample& example, const std::string& place, const char* wish,
                          std::initializer_list<const char*> known) const {
        if (const auto wished = request_.wishes.find(wish); wished != request_.wishes.end()) {
            const auto found = example.find(wished->second);
            if (found == example.end())
                refuse(place, fmt::format("has no feature '{}', which ?{}= names; it has {}", wished->second,
                                          wish, names_in(example)));
            return found->second;
        }
        for (const char* name : known)
            if (const auto found = example.find(name); found != example.end()) return found->second;
        refuse(place, fmt::format("has no {} under a known name ({}); its features are {}: name one with "
                                  "'{}?{}=NAME'",
                                  wish, fmt::join(known, ", "), names_in(example), request_.source, wish));
    }

    static unsigned side(const TfExample& example, std::initializer_list<const char*> names) {
        for (const char* name : names)
            if (const auto found = example.find(name);
                found != example.end() && found->second.whole.size() == 1)
                if (const std::int64_t value = found->second.whole[0]; value > 0 && value <= 1 << 15)
                    return unsigned(value);
        return 0;
    }

    /// The size that the example tells, else that of a square picture in grey, else in colours.
    static ImageSize size_of(const TfExample& example, std::string_view bytes, const std::string& place) {
        ImageSize size{side(example, {"height", "image/height"}), side(example, {"width", "image/width"}),
                       side(example, {"depth", "channels", "image/channels"})};
        const bool told = size.height > 0 && size.width > 0;
        if (told && size.channels == 0)
            size.channels = unsigned(bytes.size() / (std::size_t(size.height) * size.width));
        for (const unsigned channels : {1u, 3u}) {
            if (told || size.elements() == bytes.size()) break;
            const auto length = unsigned(std::lround(std::sqrt(double(bytes.size()) / channels)));
            size = {length, length, channels};
        }
        // Pixels may begin like a JPEG, but then they fill the picture.
        const bool fills = size.elements() == bytes.size();
        if (!fills && (bytes.starts_with("\xff\xd8\xff") || bytes.starts_with("\x89PNG")))
            refuse(place, "has an encoded picture, and these are not read; store its pixels");
        if ((size.channels != 1 && size.channels != 3) || !fills || bytes.empty())
            refuse(place,
                   fmt::format("has {} bytes of pixels, which are no picture {}", bytes.size(),
                               told ? fmt::format("of {}x{} in grey or colours", size.height, size.width)
                                    : "that is square, in grey or colours"));
        return size;
    }

    const DataRequest& request_;
};

std::unique_ptr<DataSource> open_tfrecord(const DataRequest& request) {
    const Columns columns(request);
    std::optional<ImageSize> size;
    std::vector<std::uint8_t> images;
    std::vector<std::uint32_t> labels;
    std::vector<std::uint8_t> record;
    for (const fs::path& file : find_files(request))
        for (RecordReader reader(file); reader.read(record);) {
            const std::string place = reader.place();
            Columns::Picture picture{};
            try {
                picture = columns.read(read_tf_example(record), place);
            } catch (const InputError&) {
                throw;
            } catch (const protozero::exception&) {
                refuse(place, "is no tf.train.Example; give files of these");
            }
            if (size && *size != picture.size)
                refuse(place, fmt::format("has a picture of {}x{}x{}, but those before have {}x{}x{}; give "
                                          "pictures of one size",
                                          picture.size.height, picture.size.width, picture.size.channels,
                                          size->height, size->width, size->channels));
            size = picture.size;
            if (images.size() + picture.bytes.size() > most_bytes_in_memory)
                refuse(place,
                       fmt::format("goes beyond {} GiB of pixels, the most that these files may have; give "
                                   "a part of them",
                                   most_bytes_in_memory >> 30));
            labels.push_back(picture.label);
            for (unsigned c = 0; c < size->channels; ++c) // into planes
                for (std::size_t i = c; i < picture.bytes.size(); i += size->channels)
                    images.push_back(std::uint8_t(picture.bytes[i]));
        }
    if (labels.empty()) refuse(request.source, "holds no records; give files that do");
    DataInfo info{"tfrecord", {}, *size};
    for (std::uint32_t i = 0; i <= std::ranges::max(labels); ++i) info.classes.push_back(std::to_string(i));
    return std::make_unique<Dataset>(std::move(info), std::move(images), std::move(labels));
}

} // namespace

void write_tfrecord(const DataSource& data, const fs::path& path) {
    const ImageSize size = data.image_size();
    const std::size_t bytes = size.elements(), plane = bytes / size.channels;
    std::vector<std::uint8_t> images(std::min(data.piece(), data.size()) * bytes);
    std::string pixels(bytes, '\0');
    AtomicFile file(path);
    for (std::size_t first = 0; first < data.size(); first += data.piece()) {
        const std::size_t count = std::min(data.piece(), data.size() - first);
        data.read(first, count, std::span(images).first(count * bytes));
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t k = 0; k < bytes; ++k)
                pixels[k] = char(images[i * bytes + k % size.channels * plane + k / size.channels]);
            file.write(
                framed(write_tf_example({{"image_raw", pixels}}, {{"height", size.height},
                                                                  {"width", size.width},
                                                                  {"depth", size.channels},
                                                                  {"pixels", std::int64_t(bytes)},
                                                                  {"label", data.labels()[first + i]}})));
        }
    }
    file.commit();
}

const DataFormat& tfrecord_format() {
    static constexpr DataFormat format{
        .name = "TFRecord files",
        .more = {},
        .files = {"*train*.tfrecord", "*test*.tfrecord"},
        .wishes = {"image", "label"},
        .recognizes =
            [](const DataRequest& request) {
                const std::vector<fs::path> files = find_files(request);
                return !files.empty() && (has_any(files[0].filename().string(), {"tfrecord", "tfrec"}) ||
                                          begins_with_a_record(files[0]));
            },
        .open = open_tfrecord};
    return format;
}

} // namespace towers
