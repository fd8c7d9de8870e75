// Detects other or damaged data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace towers {

constexpr std::uint64_t fnv_basis = 0xcbf29ce484222325, fnv_prime = 0x100000001b3;

/// FNV-1a of a text's bytes.
constexpr std::uint64_t fnv1a(std::string_view text) {
    std::uint64_t hash = fnv_basis;
    for (const char c : text) hash = (hash ^ std::uint8_t(c)) * fnv_prime;
    return hash;
}

/// FNV-1a over 8-byte words. Each word has another effect on each sum before it, so a change of one word
/// never goes unnoticed. A processor adds about 5 GB a second, more than most disks take.
class Checksum {
public:
    void add(std::uint64_t word) {
        value_ = (value_ ^ word) * fnv_prime;
        value_ ^= value_ >> 32; // a product carries upwards only
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
    std::uint64_t value_ = fnv_basis;
};

} // namespace towers
