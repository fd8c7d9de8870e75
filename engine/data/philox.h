// Random numbers on the host: the same generator as the kernels', with our own mappings, since the standard
// library's differ between implementations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace towers {

/// Philox4x32 with ten rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t(0xD2511F53u) * counter[0];
        const std::uint64_t c = std::uint64_t(0xCD9E8D57u) * counter[2];
        counter = {std::uint32_t(c >> 32) ^ counter[1] ^ key[0], std::uint32_t(c),
                   std::uint32_t(a >> 32) ^ counter[3] ^ key[1], std::uint32_t(a)};
        key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
    }
    return counter;
}

/// The purpose of a stream, so that streams with the same seed share no numbers. The distortion kernel uses
/// 0.
enum class RandomPurpose : std::uint32_t {
    sampling = 1,
    train_shapes = 2,
    test_shapes = 3,
    class_order = 4,
    sampling_of_class = 5,
    mixing = 6
};

/// The endless stream of words that belongs to (seed, purpose, indices).
class PhiloxStream {
public:
    PhiloxStream(std::uint64_t seed, RandomPurpose purpose, std::uint32_t index, std::uint32_t second = 0)
        : counter_{0, index, second, std::uint32_t(purpose)}, key_{std::uint32_t(seed),
                                                                   std::uint32_t(seed >> 32)} {}

    std::uint32_t next() {
        if (taken_ == words_.size()) {
            words_ = philox4x32(counter_, key_);
            ++counter_[0];
            taken_ = 0;
        }
        return words_[taken_++];
    }

    /// In [0, 1), in steps of 2^-24.
    float unit() { return float(next() >> 8) * (1.0f / 16777216.0f); }

    float between(float low, float high) { return low + unit() * (high - low); }

    /// In [0, bound), each number equally likely (Lemire 2019, "Fast random integer generation in an
    /// interval").
    std::uint32_t below(std::uint32_t bound) {
        std::uint64_t product = std::uint64_t(next()) * bound;
        if (std::uint32_t(product) < bound)
            for (const std::uint32_t uneven = (0u - bound) % bound; std::uint32_t(product) < uneven;)
                product = std::uint64_t(next()) * bound;
        return std::uint32_t(product >> 32);
    }

private:
    std::array<std::uint32_t, 4> counter_;
    std::array<std::uint32_t, 2> key_;
    std::array<std::uint32_t, 4> words_{};
    std::size_t taken_ = 4;
};

/// Fisher and Yates, in Durstenfeld's form.
inline void shuffle(std::span<std::uint32_t> order, PhiloxStream& random) {
    for (auto left = std::uint32_t(order.size()); left > 1; --left)
        std::swap(order[left - 1], order[random.below(left)]);
}

/// The numbers below `count`, in their order.
inline void put_in_order(std::vector<std::uint32_t>& order, std::size_t count) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0u);
}

} // namespace towers
