#include "engine/data/feed.h"

#include <algorithm>

namespace towers {

void load_images(const DataSource& source, Device& device, const Buffer& records) {
    const std::size_t image = source.image_size().elements();
    const std::size_t all = source.size(), piece = std::min(source.piece(), all);
    const Buffer staging = device.allocate(piece * image, Memory::staging);
    for (std::size_t first = 0; first < all; first += piece) {
        const std::size_t count = std::min(piece, all - first);
        source.read(first, count, staging.host<std::uint8_t>().first(count * image));
        const Command copy = Copy{{&staging, 0, count * image}, {&records, first * image, count * image}};
        device.run({&copy, 1});
    }
}

void ResidentFeed::bring(std::span<Example> examples) const {
    for (Example& example : examples) {
        example.slot = example.record;
        example.label = labels_[example.record];
    }
}

} // namespace towers
