#include "backends/upload.h"

#include <algorithm>
#include <cstring>

namespace towers {

void upload(Device& device, const Buffer& target, std::span<const std::byte> data) {
    const Buffer staging = device.allocate(std::min(staging_bytes, data.size()), Memory::staging);
    for (std::size_t offset = 0; offset < data.size(); offset += staging_bytes) {
        const std::size_t bytes = std::min(staging_bytes, data.size() - offset);
        std::memcpy(staging.host<std::byte>().data(), data.data() + offset, bytes);
        const Command copy = Copy{{&staging, 0, bytes}, {&target, offset, bytes}};
        device.run({&copy, 1});
    }
}

void download(Device& device, const Buffer& source, std::span<std::byte> data) {
    const Buffer staging = device.allocate(std::min(staging_bytes, data.size()), Memory::staging);
    for (std::size_t offset = 0; offset < data.size(); offset += staging_bytes) {
        const std::size_t bytes = std::min(staging_bytes, data.size() - offset);
        const Command copy = Copy{{&source, offset, bytes}, {&staging, 0, bytes}};
        device.run({&copy, 1});
        std::memcpy(data.data() + offset, staging.host<std::byte>().data(), bytes);
    }
}

} // namespace towers
