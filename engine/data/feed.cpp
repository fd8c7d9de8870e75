#include "engine/data/feed.h"

#include <algorithm>

namespace towers {

ResidentFeed::ResidentFeed(const DataSource& source)
    : source_(source), labels_(source.labels().begin(), source.labels().end()) {}

void ResidentFeed::load(Device& device, const Buffer& records) {
    const std::size_t image = source_.image_size().elements(), piece = std::min(source_.piece(), slots());
    const Buffer staging = device.allocate(piece * image, Memory::staging);
    for (std::size_t first = 0; first < slots(); first += piece) {
        const std::size_t count = std::min(piece, slots() - first);
        source_.read(first, count, staging.host<std::uint8_t>().first(count * image));
        const Command copy = Copy{{&staging, 0, count * image}, {&records, first * image, count * image}};
        device.run({&copy, 1});
    }
}

void ResidentFeed::bring(std::span<Example> examples) {
    for (Example& example : examples) {
        example.slot = example.record;
        example.label = labels_[example.record];
    }
}

} // namespace towers
