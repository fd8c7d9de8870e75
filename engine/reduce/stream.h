// Moves more memory than the processor's caches hold.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace towers {

constexpr std::size_t line_floats = 16; ///< in a cache line of most processors

/// Asks for memory that will be read soon, a cache line at a time, so that it arrives during other work.
class Prefetch {
public:
    explicit Prefetch(std::vector<std::span<const float>> ranges) : ranges_(std::move(ranges)) {}

    void next() {
        if (at_ == ranges_.size()) return;
        __builtin_prefetch(&ranges_[at_][line_], 0, 2); // into the second-level cache: the first is small
        line_ += line_floats;
        if (line_ < ranges_[at_].size()) return;
        line_ = 0;
        ++at_;
    }

private:
    std::vector<std::span<const float>> ranges_; ///< no empty ranges
    std::size_t at_ = 0, line_ = 0;
};

/// Copies to a target that nobody reads soon, with stores that do not read the target's cache lines first,
/// and prefetches as many bytes. Source and target begin at multiples of 16 bytes and are whole cache lines.
inline void stream(std::span<const float> source, std::span<float> target, Prefetch& prefetch) {
    for (std::size_t line = 0; line < source.size(); line += line_floats) {
        prefetch.next();
#ifdef __SSE__
        for (std::size_t i = line; i < line + line_floats; i += 4)
            _mm_stream_ps(&target[i], _mm_load_ps(&source[i]));
#else
        std::memcpy(&target[line], &source[line], line_floats * sizeof(float));
#endif
    }
#ifdef __SSE__
    _mm_sfence(); // before another thread learns of it
#endif
}

} // namespace towers
