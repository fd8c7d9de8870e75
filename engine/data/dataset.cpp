#include "engine/data/dataset.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace towers {

Dataset::Dataset(DataInfo info, std::vector<std::uint8_t> images, std::vector<std::uint32_t> labels)
    : DataSource(std::move(info), std::move(labels)), images_(std::move(images)) {
    if (images_.size() != size() * image_size().bytes())
        throw std::invalid_argument("a data set with other images than its labels");
}

void Dataset::read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const {
    const std::size_t bytes = image_size().bytes();
    for (std::size_t i = 0; i < records.size(); ++i)
        std::ranges::copy(this->images().subspan(records[i] * bytes, bytes),
                          images.subspan(i * bytes).begin());
}

} // namespace towers
