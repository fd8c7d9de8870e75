#include "engine/data/source.h"

#include "backends/checksum.h"
#include "backends/upload.h"
#include "engine/data/in_parts.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace towers {

DataSource::DataSource(DataInfo info, std::vector<std::uint32_t> labels)
    : info_(std::move(info)), labels_(std::move(labels)) {}

DataSource::DataSource(DataInfo info, LabelSets label_sets)
    : info_(std::move(info)), label_sets_(std::make_shared<const LabelSets>(std::move(label_sets))) {
    take_first_labels();
}

DataSource::DataSource(DataInfo info, const DataSource& other)
    : info_(std::move(info)), labels_(other.labels_), label_sets_(other.label_sets_) {}

DataSource::DataSource(DataInfo info, const DataSource& other, std::span<const std::uint32_t> records)
    : info_(std::move(info)) {
    for (const std::uint32_t record : records) labels_.push_back(other.labels_[record]);
    if (!other.label_sets_) return;
    LabelSets sets;
    for (const std::uint32_t record : records) sets.add(other.label_sets_->of(record));
    label_sets_ = std::make_shared<const LabelSets>(std::move(sets));
}

void DataSource::take_first_labels() {
    labels_.clear();
    for (std::size_t i = 0; i < label_sets_->size(); ++i) {
        const std::span<const std::uint32_t> labels = label_sets_->of(i);
        labels_.push_back(labels.empty() ? 0 : labels.front());
    }
}

std::vector<std::size_t> DataSource::counts() const {
    std::vector<std::size_t> counts(info_.classes.size());
    if (label_sets_) {
        for (const std::uint32_t label : label_sets_->labels()) ++counts[label];
        return counts;
    }
    for (const std::uint32_t label : labels_) ++counts[label];
    return counts;
}

void DataSource::relabel(std::span<const std::uint32_t> labels, std::vector<std::string> classes) {
    info_.classes = std::move(classes);
    if (!label_sets_) {
        for (std::uint32_t& label : labels_) label = labels[label];
        return;
    }
    LabelSets others;
    std::vector<std::uint32_t> its;
    for (std::size_t i = 0; i < label_sets_->size(); ++i) {
        its.clear();
        for (const std::uint32_t label : label_sets_->of(i)) its.push_back(labels[label]);
        std::ranges::sort(its);
        others.add(its);
    }
    label_sets_ = std::make_shared<const LabelSets>(std::move(others));
    take_first_labels();
}

void DataSource::read(std::size_t first, std::size_t count, std::span<std::uint8_t> images) const {
    constexpr std::size_t least_bytes = std::size_t(256) << 10;
    const std::size_t image = image_size().elements();
    in_parts(count, least_bytes / std::max<std::size_t>(image, 1), [&](std::size_t begin, std::size_t end) {
        std::vector<std::uint32_t> records(end - begin);
        std::iota(records.begin(), records.end(), std::uint32_t(first + begin));
        read(records, images.subspan(begin * image, records.size() * image));
    });
}

std::size_t DataSource::piece() const {
    constexpr std::size_t step = 8;
    const std::size_t records = staging_bytes / std::max<std::size_t>(image_size().elements(), 1);
    return std::max(records / step * step, step);
}

void DataSource::read_all(
    const std::function<void(std::size_t, std::span<const std::uint8_t>)>& visit) const {
    const std::size_t image = image_size().elements();
    std::vector<std::uint8_t> images(std::min(piece(), size()) * image);
    for (std::size_t first = 0; first < size(); first += piece()) {
        const std::size_t count = std::min(piece(), size() - first);
        const auto some = std::span(images).first(count * image);
        read(first, count, some);
        visit(first, some);
    }
}

std::uint64_t DataSource::checksum() const {
    const std::optional<std::uint64_t> known = fingerprint();
    return known ? *known : compute_checksum();
}

void DataSource::add_labels(Checksum& sum) const {
    if (!label_sets_) {
        for (const std::uint32_t label : labels_) sum.add(label);
        return;
    }
    for (std::size_t i = 0; i < label_sets_->size(); ++i) {
        const std::span<const std::uint32_t> labels = label_sets_->of(i);
        sum.add(labels.size());
        for (const std::uint32_t label : labels) sum.add(label);
    }
}

std::uint64_t DataSource::compute_checksum() const {
    Checksum sum;
    add_labels(sum);
    read_all([&](std::size_t, std::span<const std::uint8_t> images) { sum.add(std::as_bytes(images)); });
    return sum.value();
}

Dataset::Dataset(DataInfo info, std::vector<std::uint8_t> images, std::vector<std::uint32_t> labels)
    : DataSource(std::move(info), std::move(labels)), images_(std::move(images)) {
    if (images_.size() != size() * image_size().elements())
        throw std::invalid_argument("a data set with other images than its labels");
}

void Dataset::read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const {
    const std::size_t bytes = image_size().elements();
    for (std::size_t i = 0; i < records.size(); ++i)
        std::ranges::copy(this->images().subspan(records[i] * bytes, bytes),
                          images.subspan(i * bytes).begin());
}

} // namespace towers
