// What a data set is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers {

enum class Split { train, test };

struct ImageSize {
    unsigned height = 0, width = 0; ///< pixels
    unsigned channels = 0;          ///< values per pixel: 1 grey, 3 red, green, blue
    bool operator==(const ImageSize&) const = default;

    constexpr std::size_t bytes() const { return std::size_t(height) * width * channels; }
};

struct DataInfo {
    std::string name;
    std::vector<std::string> classes; ///< names, in the order of their labels
    ImageSize image;                  ///< of every record
};

/// Labelled images, by the numbers of their records. Labels are in memory, images need not be.
class DataSource {
public:
    virtual ~DataSource() = default;

    const DataInfo& info() const { return info_; }
    std::size_t size() const { return labels_.size(); } ///< records
    ImageSize image_size() const { return info_.image; }
    std::span<const std::uint32_t> labels() const {
        return labels_;
    } ///< [size()], each below the classes' number

    /// Fills images [records.size()][channels][height][width], planes of bytes as in CIFAR-10. From any
    /// thread. InputError when a record cannot be read.
    virtual void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const = 0;

    /// Likewise of `count` records from `first` on.
    void read(std::size_t first, std::size_t count, std::span<std::uint8_t> images) const;

    /// How many records to read at once when all are read: about 8 MiB. A multiple of 8, so that the next
    /// ones begin at a whole word.
    std::size_t piece() const;

    /// Of all labels and images, which it reads: tells data sets apart, wherever they lie.
    std::uint64_t checksum() const;

protected:
    DataSource(DataInfo info, std::vector<std::uint32_t> labels);

private:
    DataInfo info_;
    std::vector<std::uint32_t> labels_;
};

} // namespace towers
