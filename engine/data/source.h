// What a data set is, and one whose images lie in memory.
#pragma once

#include "engine/data/label_sets.h"
#include "engine/plan/shape.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers {

class Checksum;

enum class Split { train, test };

/// Of a stored image, whose elements are bytes. Channels: 1 grey, or 3: red, green, blue.
using ImageSize = Shape;

/// The least and the largest height and width of pictures; both with the same channels.
struct PictureRange {
    ImageSize least, most;
};

struct DataInfo {
    std::string name;
    std::vector<std::string> classes; ///< names, in the order of their labels
    ImageSize
        image; ///< of every record; without height and width if no size was asked for, and none is natural
    std::optional<PictureRange> pictures = {}; ///< encoded ones of any size, from which the records are made
    std::optional<ImageSize> converted_from = {}; ///< the images' size in the source of a ConvertedSource
};

/// The most bytes of images in a file's data set that lies in memory.
constexpr std::size_t most_bytes_in_memory = std::size_t(4) << 30;

/// Labelled images, by the numbers of their records. Labels are in memory, images need not be.
class DataSource {
public:
    virtual ~DataSource() = default;

    const DataInfo& info() const { return info_; }
    std::size_t size() const { return labels_.size(); } ///< records
    ImageSize image_size() const { return info_.image; }
    std::uint64_t image_bytes() const { return std::uint64_t(size()) * image_size().elements(); } ///< of all
    std::span<const std::uint32_t> labels() const {
        return labels_;
    } ///< [size()], each below the classes' number

    /// The classes of each record, where it may have several or none; then labels() has the first of them, or
    /// 0. Null: each record has one class, its label.
    const std::shared_ptr<const LabelSets>& label_sets() const { return label_sets_; }

    std::vector<std::size_t> counts() const; ///< examples of each class, in the order of their labels

    /// Gives the records label `labels[i]` in place of label i, and the classes other names.
    void relabel(std::span<const std::uint32_t> labels, std::vector<std::string> classes);

    /// Fills images [records.size()][channels][height][width], planes of bytes as in CIFAR-10. From any
    /// thread. InputError when a record cannot be read.
    virtual void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const = 0;

    /// Likewise of `count` records from `first` on, with a thread for each processor.
    void read(std::size_t first, std::size_t count, std::span<std::uint8_t> images) const;

    /// Likewise of all records, in their order: calls visit(first record, images of it and those that follow)
    /// for one piece() after the other.
    void read_all(const std::function<void(std::size_t, std::span<const std::uint8_t>)>& visit) const;

    /// How many records to read at once when all are read: about staging_bytes. A multiple of 8, so that the
    /// next ones begin at a whole word.
    std::size_t piece() const;

    /// Tells data sets apart, wherever they lie: the fingerprint, else of all labels and images, which it
    /// reads.
    std::uint64_t checksum() const;

    /// Adds what the records' labels say to a checksum, as checksum() begins.
    void add_labels(Checksum& sum) const;

    /// Of a source whose images are not in memory: of its index, such as labels and the names and sizes
    /// of files, so that nobody reads all images only to tell data sets apart. None: they are in
    /// memory.
    virtual std::optional<std::uint64_t> fingerprint() const { return std::nullopt; }

    /// Where a record comes from, for people: a file, and a place in it; "" if nobody could look there.
    virtual std::string place_of(std::uint32_t /*record*/) const { return ""; }

    /// What is wrong with the data as a whole, though each record can be read; "" if nothing is. Reads
    /// everything.
    virtual std::string find_damage() const { return ""; }

protected:
    std::uint64_t compute_checksum() const; ///< of all labels and images
    DataSource(DataInfo info, std::vector<std::uint32_t> labels);
    DataSource(DataInfo info, LabelSets label_sets);
    DataSource(DataInfo info, const DataSource& other); ///< with the labels of its records
    /// With the labels of these records of the other source.
    DataSource(DataInfo info, const DataSource& other, std::span<const std::uint32_t> records);

private:
    void take_first_labels(); ///< of the label sets

    DataInfo info_;
    std::vector<std::uint32_t> labels_;
    std::shared_ptr<const LabelSets> label_sets_;
};

class Dataset final : public DataSource {
public:
    /// `images`: as read() gives them, of all records.
    Dataset(DataInfo info, std::vector<std::uint8_t> images, std::vector<std::uint32_t> labels);

    std::span<const std::uint8_t> images() const { return images_; }

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override;

private:
    std::vector<std::uint8_t> images_;
};

} // namespace towers
