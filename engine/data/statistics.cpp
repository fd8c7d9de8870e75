#include "engine/data/statistics.h"

#include "engine/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace towers {
namespace {

/// How often each byte occurs in a channel.
using Histogram = std::array<std::uint64_t, 256>;

void count(std::span<const std::uint8_t> images, const ImageSize& size, std::vector<Histogram>& channels) {
    const std::size_t plane = std::size_t(size.height) * size.width;
    for (std::size_t i = 0; i < images.size(); i += plane)
        for (const std::uint8_t byte : images.subspan(i, plane)) ++channels[i / plane % size.channels][byte];
}

} // namespace

DataStatistics statistics_of(const DataSource& data) {
    const ImageSize size = data.image_size();
    DataStatistics statistics;
    statistics.counts.resize(data.info().classes.size());
    for (const std::uint32_t label : data.labels()) ++statistics.counts[label];

    std::vector<Histogram> channels(size.channels);
    std::vector<std::uint8_t> images;
    for (std::size_t first = 0; first < data.size(); first += data.piece()) {
        const std::size_t records = std::min(data.piece(), data.size() - first);
        images.resize(records * size.elements());
        try {
            data.read(first, records, images);
            count(images, size, channels);
        } catch (const InputError&) { // one by one, to know which
            const auto image = std::span(images).first(size.elements());
            for (std::size_t i = first; i < first + records; ++i) try {
                    data.read(i, 1, image);
                    count(image, size, channels);
                } catch (const InputError& error) {
                    statistics.broken.emplace_back(error.what());
                }
        }
    }
    for (const Histogram& histogram : channels) {
        double pixels = 0, sum = 0, squares = 0;
        for (unsigned byte = 0; byte < 256; ++byte) {
            pixels += double(histogram[byte]);
            sum += double(histogram[byte]) * byte;
            squares += double(histogram[byte]) * byte * byte;
        }
        const double mean = pixels > 0 ? sum / pixels : 0;
        statistics.mean.push_back(mean / 255);
        statistics.deviation.push_back(
            pixels > 0 ? std::sqrt(std::max(0.0, squares / pixels - mean * mean)) / 255 : 0);
    }
    return statistics;
}

} // namespace towers
