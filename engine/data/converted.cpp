#include "engine/data/converted.h"

#include "backends/checksum.h"

#include <algorithm>

namespace towers {

namespace {

DataInfo with_image(DataInfo info, ImageSize image) {
    info.converted_from = info.image;
    info.image = image;
    return info;
}

} // namespace

void make_grey(std::span<const std::uint8_t> colour, std::span<std::uint8_t> grey) {
    const std::size_t n = grey.size();
    for (std::size_t i = 0; i < n; ++i) // ITU-R 601-2, in 65536ths
        grey[i] = std::uint8_t(
            (colour[i] * 19595u + colour[n + i] * 38470u + colour[2 * n + i] * 7471u + 0x8000) >> 16);
}

ConvertedSource::ConvertedSource(std::unique_ptr<DataSource> source, ImageSize image)
    : DataSource(with_image(source->info(), image), *source), source_(std::move(source)),
      resizer_({source_->image_size().height, source_->image_size().width}, {image.height, image.width}) {}

void ConvertedSource::read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const {
    const ImageSize from = source_->image_size(), to = image_size();
    const std::size_t plane = std::size_t(from.height) * from.width;
    const std::size_t new_plane = std::size_t(to.height) * to.width;
    std::vector<std::uint8_t> image(from.elements()), grey(plane);
    for (std::size_t i = 0; i < records.size(); ++i) {
        source_->read(records.subspan(i, 1), image);
        std::span<const std::uint8_t> pixels = image;
        if (to.channels < from.channels) {
            make_grey(image, grey);
            pixels = grey;
        }
        const auto target = images.subspan(i * to.elements(), to.elements());
        const unsigned planes = std::min(from.channels, to.channels);
        for (unsigned c = 0; c < planes; ++c)
            resizer_.resize(pixels.subspan(c * plane, plane), target.subspan(c * new_plane, new_plane));
        for (unsigned c = planes; c < to.channels; ++c)
            std::ranges::copy(target.first(new_plane), target.subspan(c * new_plane).begin());
    }
}

std::optional<std::uint64_t> ConvertedSource::fingerprint() const {
    const std::optional<std::uint64_t> stored = source_->fingerprint();
    if (!stored) return std::nullopt;
    Checksum sum;
    for (const std::uint64_t part : {*stored, std::uint64_t(image_size().height),
                                     std::uint64_t(image_size().width), std::uint64_t(image_size().channels)})
        sum.add(part);
    return sum.value();
}

} // namespace towers
