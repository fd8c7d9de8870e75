#include "engine/data/picture_source.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/broken_pictures.h"
#include "engine/data/picture.h"
#include "engine/data/picture_size.h"
#include "engine/files/text.h"

#include <fmt/format.h>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace towers {
namespace {

namespace fs = std::filesystem;

class PictureSource final : public DataSource {
public:
    /// `labels`: one or a set of each record.
    template<class Labels>
    PictureSource(DataInfo info, Labels labels, PictureListing listing, const DataRequest& request)
        : DataSource(std::move(info), std::move(labels)), folder_(std::move(listing.folder)),
          files_(std::move(listing.files)), source_(request.source), broken_(request) {
        for (const auto& record : listing.records) file_of_.push_back(record.file);
        listing.checksum.add(image_size().height);
        listing.checksum.add(image_size().width);
        listing.checksum.add(image_size().channels);
        checksum_ = listing.checksum.value();
    }

    std::optional<std::uint64_t> fingerprint() const override { return checksum_; }
    std::string place_of(std::uint32_t record) const override { return path_of(record).string(); }

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        check_has_size(source_, image_size());
        const std::size_t bytes = image_size().elements();
        for (std::size_t i = 0; i < records.size(); ++i)
            read_picture(path_of(records[i]), images.subspan(i * bytes, bytes));
    }

private:
    fs::path path_of(std::uint32_t record) const { return folder_ / files_[file_of_[record]]; }

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
    std::vector<std::uint32_t> file_of_; ///< by record
    std::string source_;                 ///< for messages
    std::uint64_t checksum_ = 0;
    mutable BrokenPictures broken_;
};

/// A picture's size, and its file's.
std::pair<ImageSize, std::uint64_t> read_size(const fs::path& path) {
    const InputFile file(path);
    check_file_size(file.size());
    return {picture_size(PictureBytes(file)), file.size()};
}

constexpr std::uint64_t broken_file = std::numeric_limits<std::uint64_t>::max();

/// Reads every header. Returns the files' sizes in bytes, or `broken_file`.
std::vector<std::uint64_t> read_headers(const PictureListing& listing, const DataRequest& request,
                                        PictureSizes& sizes) {
    BrokenPictures broken(request);
    std::vector<std::uint64_t> file_bytes(listing.files.size(), broken_file);
    for (std::size_t i = 0; i < listing.files.size(); ++i) {
        const fs::path path = listing.folder / listing.files[i];
        try {
            const auto [size, bytes] = read_size(path);
            sizes.add(size);
            file_bytes[i] = bytes;
        } catch (const PictureError& error) {
            broken.leave_out(path.string(), error.what());
        } catch (const InputError& error) {
            if (!request.skip_broken) throw;
            broken.leave_out(path.string(), fmt::format("({})", error.what()));
        }
    }
    broken.report(request.source, listing.files.size());
    if (!sizes.range())
        throw InputError(fmt::format("{} has no picture that is sound{}; give others",
                                     as_printable(request.source), broken.example()));
    return file_bytes;
}

} // namespace

bool is_in_split(const std::string& name, const DataRequest& request) {
    if (!request.held_out.any()) return true;
    Checksum sum;
    sum.add(fnv1a(name));
    sum.add(0); // mixes the bits
    const double hash = double(sum.value() >> 11) * 0x1p-53;
    const bool is_held_out = hash >= request.held_out.begin && hash < request.held_out.end;
    return is_held_out == (request.split == Split::test);
}

std::string with_held_out(const DataRequest& request) {
    return request.held_out.any() ? " with this --hold-out or --fold" : "";
}

std::unique_ptr<DataSource> open_listed(PictureListing listing, std::vector<std::string> classes,
                                        const DataRequest& request) {
    PictureSizes sizes;
    const std::vector<std::uint64_t> file_bytes = read_headers(listing, request, sizes);
    std::erase_if(listing.records,
                  [&](const auto& record) { return file_bytes[record.file] == broken_file; });
    std::vector<std::uint32_t> labels;
    LabelSets sets;
    for (const auto& [file, label] : listing.records) {
        listing.checksum.add(fnv1a(listing.files[file]));
        listing.checksum.add(file_bytes[file]);
        if (!listing.sets) {
            listing.checksum.add(label);
            labels.push_back(label);
            continue;
        }
        const std::span<const std::uint32_t> its = listing.sets->of(label);
        listing.checksum.add(its.size());
        for (const std::uint32_t each : its) listing.checksum.add(each);
        sets.add(its);
    }
    DataInfo info{"pictures", std::move(classes), wanted_size(request, sizes), sizes.range()};
    if (std::exchange(listing.sets, std::nullopt))
        return std::make_unique<PictureSource>(std::move(info), std::move(sets), std::move(listing), request);
    return std::make_unique<PictureSource>(std::move(info), std::move(labels), std::move(listing), request);
}

} // namespace towers
