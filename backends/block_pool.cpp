#include "backends/block_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace towers {
namespace {

/// The block size for this many bytes. Small blocks have few sizes, so that a freed one fits the next
/// request.
std::size_t size_of(std::size_t bytes) {
    constexpr std::size_t least = 256;
    return bytes > BlockPool::largest_kept ? bytes : std::bit_ceil(std::max(least, bytes));
}

} // namespace

void* BlockPool::take(std::size_t bytes) {
    const std::size_t size = size_of(bytes);
    if (const auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
        void* const block = found->second.back();
        found->second.pop_back();
        kept_ -= size;
        return block;
    }
    try {
        return get_(size);
    } catch (...) {
        if (kept_ == 0) throw;
    }
    clear();
    return get_(size);
}

void BlockPool::give_back(void* block, std::size_t bytes) noexcept {
    const std::size_t size = size_of(bytes);
    if (size <= largest_kept && kept_ + size <= most_kept) {
        try {
            free_[size].push_back(block);
            kept_ += size;
            return;
        } catch (const std::bad_alloc&) { // it cannot be noted down
        }
    }
    release_(block);
}

void BlockPool::clear() {
    for (const auto& [size, blocks] : free_)
        for (void* block : blocks) release_(block);
    free_.clear();
    kept_ = 0;
}

} // namespace towers
