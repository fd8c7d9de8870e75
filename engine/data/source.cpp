#include "engine/data/source.h"

#include "engine/files/checksum.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace towers {

DataSource::DataSource(DataInfo info, std::vector<std::uint32_t> labels)
    : info_(std::move(info)), labels_(std::move(labels)) {}

void DataSource::read(std::size_t first, std::size_t count, std::span<std::uint8_t> images) const {
    std::vector<std::uint32_t> records(count);
    std::iota(records.begin(), records.end(), std::uint32_t(first));
    read(records, images);
}

std::size_t DataSource::piece() const {
    constexpr std::size_t bytes = std::size_t(8) << 20, step = 8;
    const std::size_t records = bytes / std::max<std::size_t>(image_size().bytes(), 1);
    return std::max(records / step * step, step);
}

std::uint64_t DataSource::checksum() const {
    Checksum sum;
    for (const std::uint32_t label : labels_) sum.add(label);
    const std::size_t image = image_size().bytes();
    std::vector<std::uint8_t> images(std::min(piece(), size()) * image);
    for (std::size_t first = 0; first < size(); first += piece()) {
        const std::size_t count = std::min(piece(), size() - first);
        const auto some = std::span(images).first(count * image);
        read(first, count, some);
        sum.add(std::as_bytes(some));
    }
    return sum.value();
}

} // namespace towers
