// Which classes each record has, where it may have several or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

class LabelSets {
public:
    LabelSets() = default;

    /// Adds a record. `labels`: ascending, each once.
    void add(std::span<const std::uint32_t> labels) {
        labels_.insert(labels_.end(), labels.begin(), labels.end());
        ends_.push_back(labels_.size());
    }

    std::size_t size() const { return ends_.size(); } ///< records
    std::span<const std::uint32_t> of(std::size_t record) const {
        const std::size_t begin = record == 0 ? 0 : ends_[record - 1];
        return std::span(labels_).subspan(begin, ends_[record] - begin);
    }
    std::span<const std::size_t> ends() const { return ends_; }
    std::span<const std::uint32_t> labels() const { return labels_; } ///< of all records, in their order

    bool operator==(const LabelSets&) const = default;

private:
    std::vector<std::size_t> ends_; ///< in labels_, of each record
    std::vector<std::uint32_t> labels_;
};

} // namespace towers
