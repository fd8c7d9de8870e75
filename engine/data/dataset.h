// A data set whose images lie in memory.
#pragma once

#include "engine/data/source.h"

namespace towers {

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
