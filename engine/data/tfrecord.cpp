// Files of tf.train.Example records with pictures, such as those of TensorFlow's MNIST examples: a picture's
// bytes [height][width][channels], or a JPEG, PNG or WebP, under one name, its label under another, and
// perhaps its size. Plain files are indexed, and their records read when they are needed.
#include "engine/data/tfrecord.h"

#include "backends/checksum.h"
#include "backends/error.h"
#include "backends/files/atomic_file.h"
#include "engine/data/broken_pictures.h"
#include "engine/data/class_labels.h"
#include "engine/data/formats.h"
#include "engine/data/guessed_pixels.h"
#include "engine/data/picture.h"
#include "engine/data/picture_size.h"
#include "engine/data/planes.h"
#include "engine/data/record_file.h"
#include "engine/data/tf_columns.h"
#include "engine/data/tf_example.h"
#include "engine/data/tf_files.h"
#include "engine/files/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <protozero/exception.hpp>
#include <spdlog/spdlog.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const RecordName& name, const std::string& what) {
    throw InputError(fmt::format("{} {}", name.text(), what));
}

/// Where a record is.
struct Entry {
    std::uint32_t file, length;
    std::uint64_t offset;
    std::uint32_t number; ///< in its file, for messages
};

/// What is known of a data set's records.
struct Index {
    std::vector<RecordFile> files;
    std::vector<Entry> entries;
    std::vector<std::uint32_t> labels;
    std::optional<ImageSize> size; ///< of pixels; absent: the pictures are encoded
    PictureSizes sizes;            ///< of these
    Checksum checksum;
};

/// The picture and label in a record. PictureError for one that is damaged, InputError for one that does not
/// fit.
TfColumns::Content content_of(const RecordView& record, const RecordName& name, const TfColumns& columns,
                              TfExample& example, bool encoded) {
    try {
        example = read_tf_example(record.bytes);
        return columns.read(example, name, encoded);
    } catch (const InputError&) {
        if (!record.is_sound()) throw PictureError("has another checksum");
        throw;
    } catch (const protozero::exception&) {
        if (!record.is_sound()) throw PictureError("has another checksum");
        refuse(name, "is no tf.train.Example; give files of these");
    }
}

/// Indexes records; the first one says whether they have pixels or encoded pictures.
class Indexer {
public:
    explicit Indexer(const DataRequest& request)
        : columns_(request.source, request.options), broken_(request),
          tells_of_noise_(request.split == Split::train || request.whole) {}

    Index index(const std::vector<fs::path>& files, const std::string& source) {
        std::uint64_t room = most_bytes_in_memory;
        for (const fs::path& path : files)
            index_.files.emplace_back(path, room, [&](const RecordName& name, const RecordView& record) {
                ++records_;
                try {
                    add(name, record);
                } catch (const PictureError& error) {
                    broken_.leave_out(name.text(), error.what());
                }
            });
        if (!guessed_.are_enough()) check_guess();
        broken_.report(source, records_);
        if (index_.labels.empty() && records_ > 0)
            throw InputError(
                fmt::format("{} has no record that is sound{}; give others", source, broken_.example()));
        if (index_.labels.empty()) throw InputError(source + " holds no records; give files that do");
        if (index_.labels.size() > std::numeric_limits<std::uint32_t>::max() / 2)
            throw InputError(source + " has too many records; give a part of them");
        return std::move(index_);
    }

private:
    void add(const RecordName& name, const RecordView& record) {
        const bool first = index_.entries.empty(), encoded = !first && !index_.size;
        const TfColumns::Content content = content_of(record, name, columns_, example_, encoded);
        if (content.encoded) {
            if (index_.size)
                refuse(name, "has an encoded picture, but those before have pixels; give files of one kind");
            index_.sizes.add(picture_size(as_bytes(content.bytes)));
            index_.checksum.add(record.checksum);
            index_.checksum.add(content.label);
        } else {
            if (first) index_.size = content.size;
            check_size(name, content.size);
            if (content.guessed && !guessed_.are_enough()) {
                guessed_.add(as_bytes(content.bytes),
                             std::size_t(content.size.width) * content.size.channels);
                if (guessed_.are_enough()) check_guess();
            }
        }
        index_.entries.push_back({std::uint32_t(index_.files.size()), std::uint32_t(record.bytes.size()),
                                  record.offset, std::uint32_t(name.record)});
        index_.labels.push_back(content.label);
    }

    /// InputError if the records whose size was guessed look like something else.
    void check_guess() const {
        if (const std::string other = guessed_.look_like(); !other.empty())
            throw InputError(
                fmt::format("{} has records whose bytes would be pictures of {}x{}x{}, but look like "
                            "{}; {}",
                            as_printable(columns_.source()), index_.size->height, index_.size->width,
                            index_.size->channels, other, advice_on_pixels));
        if (tells_of_noise_ && guessed_.are_noise())
            spdlog::warn("{} has records that as pictures of {}x{}x{} are noise; if they are others, such as "
                         "RGBA, {}",
                         as_printable(columns_.source()), index_.size->height, index_.size->width,
                         index_.size->channels, advice_on_pixels);
    }

    void check_size(const RecordName& name, const ImageSize& size) const {
        const ImageSize& before = *index_.size;
        if (size != before)
            refuse(name, fmt::format("has a picture of {}x{}x{}, but those before have {}x{}x{}; give "
                                     "pictures of one size",
                                     size.height, size.width, size.channels, before.height, before.width,
                                     before.channels));
    }

    TfColumns columns_;
    TfExample example_;
    GuessedPixels guessed_;
    BrokenPictures broken_;
    bool tells_of_noise_; ///< to those who open both splits once
    Index index_;
    std::size_t records_ = 0;
};

class RecordSource final : public DataSource {
public:
    RecordSource(DataInfo info, Index index, const DataRequest& request)
        : DataSource(std::move(info), std::move(index.labels)), files_(std::move(index.files)),
          entries_(std::move(index.entries)), encoded_(!index.size), checksum_(index.checksum),
          source_(request.source), columns_(request.source, request.options), broken_(request) {
        const ImageSize size = image_size();
        for (const unsigned each : {size.height, size.width, size.channels}) checksum_.add(each);
    }

    /// Of encoded pictures: that of the records' own checksums.
    std::optional<std::uint64_t> fingerprint() const override {
        return encoded_ ? std::optional(checksum_.value()) : std::nullopt;
    }

    std::string place_of(std::uint32_t record) const override {
        const Entry& entry = entries_[record];
        return RecordName{files_[entry.file].path(), entry.number}.text();
    }

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        check_has_size(source_, image_size());
        const std::size_t bytes = image_size().elements();
        std::optional<RecordFile::Reader> reader;
        const RecordFile* open = nullptr;
        for (std::size_t i = 0; i < records.size(); ++i) {
            const Entry& entry = entries_[records[i]];
            if (const RecordFile* const file = &files_[entry.file]; file != open) {
                reader.emplace(*file);
                open = file;
            }
            const RecordName name{open->path(), entry.number};
            const auto image = images.subspan(i * bytes, bytes);
            try {
                fill(image, reader->read(entry.offset, entry.length), name);
            } catch (const PictureError& error) {
                broken_.stand_in(name.text(), error.what(), image);
            }
        }
    }

private:
    void fill(std::span<std::uint8_t> image, const RecordView& record, const RecordName& name) const {
        if (!record.is_sound()) throw PictureError("has another checksum");
        TfExample example;
        const TfColumns::Content content = content_of(record, name, columns_, example, encoded_);
        if (content.encoded != encoded_ || (!encoded_ && content.size != image_size()))
            refuse(name, "has changed since it was indexed; try again");
        if (encoded_) return prepare_picture(as_bytes(content.bytes), image_size(), image);
        to_planes(as_bytes(content.bytes), image_size().channels, image);
    }

    std::vector<RecordFile> files_;
    std::vector<Entry> entries_;
    bool encoded_;
    Checksum checksum_;
    std::string source_;
    TfColumns columns_;
    mutable BrokenPictures broken_;
};

std::unique_ptr<DataSource> open_tfrecord(const DataRequest& request) {
    Index index = Indexer(request).index(tf_record_files(request), request.source);
    DataInfo info{
        "tfrecord", {}, index.size ? *index.size : wanted_size(request, index.sizes), index.sizes.range()};
    for (std::uint32_t i = 0; i <= std::ranges::max(index.labels); ++i)
        info.classes.push_back(std::to_string(i));
    return std::make_unique<RecordSource>(std::move(info), std::move(index), request);
}

} // namespace

void write_tfrecord(const DataSource& data, const fs::path& path) {
    const ImageSize size = data.image_size();
    const std::size_t bytes = size.elements();
    std::vector<std::uint8_t> pixels(bytes);
    const std::string_view image_raw(reinterpret_cast<const char*>(pixels.data()), bytes);
    std::vector<std::int64_t> labels(data.labels().begin(), data.labels().end());
    if (const auto called = labels_in(data.info().classes))
        for (std::int64_t& label : labels) label = (*called)[std::size_t(label)];
    AtomicFile file(path);
    data.read_all([&](std::size_t first, std::span<const std::uint8_t> images) {
        for (std::size_t i = 0; i < images.size() / bytes; ++i) {
            to_pixels(images.subspan(i * bytes, bytes), size.channels, pixels);
            file.write(framed(write_tf_example({{"image_raw", image_raw}}, {{"height", size.height},
                                                                            {"width", size.width},
                                                                            {"depth", size.channels},
                                                                            {"pixels", std::int64_t(bytes)},
                                                                            {"label", labels[first + i]}})));
        }
    });
    file.commit();
}

const DataFormat& tfrecord_format() {
    static constexpr DataFormat format{.key = "tfrecord",
                                       .name = "TFRecord files",
                                       .more = {},
                                       .files = {"*train*.tfrecord", "*test*.tfrecord"},
                                       .options = {"image", "label", "size"},
                                       .recognizes =
                                           [](const DataRequest& request) {
                                               const std::vector<fs::path> files = tf_record_files(request);
                                               return !files.empty() &&
                                                      (is_named_tfrecord(files[0].filename().string()) ||
                                                       begins_with_a_record(files[0]));
                                           },
                                       .open = open_tfrecord};
    return format;
}

} // namespace towers
