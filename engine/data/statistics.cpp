#include "engine/data/statistics.h"

#include "backends/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <spdlog/spdlog.h>
#include <utility>

namespace towers {
namespace {

/// How often each byte occurs in a channel.
using Histogram = std::array<std::uint64_t, 256>;

void count(std::span<const std::uint8_t> images, const ImageSize& size, std::vector<Histogram>& channels) {
    const std::size_t plane = std::size_t(size.height) * size.width;
    for (std::size_t i = 0; i < images.size(); i += plane)
        for (const std::uint8_t byte : images.subspan(i, plane)) ++channels[i / plane % size.channels][byte];
}

/// Of the records that are not broken.
void count_labels(const DataSource& data, DataStatistics& statistics) {
    statistics.counts.resize(data.info().classes.size());
    auto broken = statistics.broken.begin();
    for (std::uint32_t i = 0; i < data.size(); ++i) {
        if (broken != statistics.broken.end() && broken->record == i) {
            ++broken;
            continue;
        }
        if (data.label_sets() == nullptr) {
            ++statistics.counts[data.labels()[i]];
            continue;
        }
        const std::span<const std::uint32_t> labels = data.label_sets()->of(i);
        for (const std::uint32_t label : labels) ++statistics.counts[label];
        if (!statistics.labels) statistics.labels = {.least = labels.size()};
        statistics.labels->least = std::min(statistics.labels->least, labels.size());
        statistics.labels->most = std::max(statistics.labels->most, labels.size());
        statistics.labels->all += labels.size();
        statistics.labels->without += labels.empty();
    }
}

/// Some records of another source.
class PartOfSource final : public DataSource {
public:
    PartOfSource(std::unique_ptr<DataSource> whole, std::vector<std::uint32_t> records)
        : DataSource(whole->info(), *whole, records), whole_(std::move(whole)), records_(std::move(records)) {
    }

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        std::vector<std::uint32_t> there;
        for (const std::uint32_t record : records) there.push_back(records_[record]);
        whole_->read(there, images);
    }

private:
    std::unique_ptr<DataSource> whole_;
    std::vector<std::uint32_t> records_; ///< numbers in the whole
};

} // namespace

std::unique_ptr<DataSource> without_broken(std::unique_ptr<DataSource> source) {
    const std::vector<BrokenRecord> broken = statistics_of(*source).broken;
    if (broken.empty()) return source;
    std::vector<std::uint32_t> sound;
    for (std::uint32_t i = 0; i < source->size(); ++i)
        if (!std::ranges::binary_search(broken, i, {}, &BrokenRecord::record)) sound.push_back(i);
    const std::string such = broken[0].problem;
    if (sound.empty()) throw InputError(such + "; no picture is sound");
    spdlog::warn("{} of {} pictures cannot be decoded and are left out, such as: {}", broken.size(),
                 source->size(), such);
    return std::make_unique<PartOfSource>(std::move(source), std::move(sound));
}

DataStatistics statistics_of(const DataSource& data) {
    const ImageSize size = data.image_size();
    DataStatistics statistics;

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
                    statistics.broken.push_back({std::uint32_t(i), error.what()});
                }
        }
    }
    count_labels(data, statistics);
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
