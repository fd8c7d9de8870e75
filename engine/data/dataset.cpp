#include "engine/data/dataset.h"

#include <algorithm>
#include <cstring>

namespace towers {

std::uint64_t Dataset::checksum() const {
    std::uint64_t sum = 0xcbf29ce484222325;
    const auto add = [&](std::uint64_t word) {
        sum = (sum ^ word) * 0x100000001b3;
        sum ^= sum >> 32; // a product carries upwards only
    };
    for (const std::uint32_t label : labels) add(label);
    for (std::size_t i = 0; i < images.size(); i += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, &images[i], std::min(sizeof word, images.size() - i));
        add(word);
    }
    return sum;
}

} // namespace towers
