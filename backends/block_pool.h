// Keeps freed memory for reuse without the driver.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory_resource>
#include <vector>

namespace towers {

/// When a driver frees memory, it may wait for everything that runs on a card, including other towers' work.
/// So the pool keeps small blocks, which towers free and allocate again when their shares change. It does not
/// keep large blocks, which change rarely and which others may need. One thread at a time uses a pool.
class BlockPool {
public:
    using Get = std::function<void*(std::size_t bytes)>; ///< throws when there is no memory
    using Release = std::function<void(void*)>;
    BlockPool(Get get, Release release) : get_(std::move(get)), release_(std::move(release)) {}
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;
    ~BlockPool() { clear(); }

    /// Returns a block of at least this many bytes with arbitrary content. If the driver refuses, gives all
    /// kept blocks back to it and asks again.
    void* take(std::size_t bytes);
    /// Takes back a block that take() returned for this many bytes and that nothing uses any more. Frees it
    /// if there is no memory to note it down.
    void give_back(void* block, std::size_t bytes) noexcept;

    /// The bytes that are kept.
    std::size_t kept() const { return kept_; }

    static constexpr std::size_t largest_kept = std::size_t(16) << 20; ///< of one block
    static constexpr std::size_t most_kept = std::size_t(64) << 20;    ///< of all together

private:
    void clear();

    Get get_;
    Release release_;
    /// The kept blocks by size. In tests the memory resource may refuse.
    std::pmr::map<std::size_t, std::pmr::vector<void*>> free_;
    std::size_t kept_ = 0;
};

} // namespace towers
