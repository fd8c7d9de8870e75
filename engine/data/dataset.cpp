#include "engine/data/dataset.h"

#include "engine/files/checksum.h"

#include <span>

namespace towers {

std::uint64_t Dataset::checksum() const {
    Checksum sum;
    for (const std::uint32_t label : labels) sum.add(label);
    sum.add(std::as_bytes(std::span(images)));
    return sum.value();
}

} // namespace towers
