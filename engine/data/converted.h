// A data set with images of another size or other colours than it is stored with.
#pragma once

#include "engine/data/resize.h"
#include "engine/data/source.h"

#include <memory>
#include <optional>

namespace towers {

/// Fills a plane with the brightness of three, as Pillow computes it.
void make_grey(std::span<const std::uint8_t> colour, std::span<std::uint8_t> grey);

class ConvertedSource final : public DataSource {
public:
    /// `image`: 1 or 3 channels, as the source's. Grey becomes colour by repetition, colour grey by the
    /// brightness that Pillow computes; sizes change as Resizer says.
    ConvertedSource(std::unique_ptr<DataSource> source, ImageSize image);

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override;
    std::optional<std::uint64_t> fingerprint() const override;
    std::string place_of(std::uint32_t record) const override { return source_->place_of(record); }

private:
    std::unique_ptr<DataSource> source_;
    Resizer resizer_;
};

} // namespace towers
