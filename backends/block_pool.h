// Memory that was given back and can be had again without the driver.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory_resource>
#include <vector>

namespace towers {

/// A driver's freeing of memory may wait for all that runs on a card, other towers' work too. So small
/// blocks, which towers free and allocate anew when their shares change, are kept; large ones change rarely,
/// and others may need them. One thread at a time uses a pool.
class BlockPool {
public:
    using Get = std::function<void*(std::size_t bytes)>; ///< throws when there is no memory
    using Release = std::function<void(void*)>;
    BlockPool(Get get, Release release) : get_(std::move(get)), release_(std::move(release)) {}
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;
    ~BlockPool() { clear(); }

    /// A block of at least so many bytes, with whatever was left in it. When the driver refuses one, gives it
    /// all that the pool keeps and asks again.
    void* take(std::size_t bytes);
    /// A block that take() gave for so many bytes, which nothing uses any more. The driver gets it where
    /// there is no memory to note it down.
    void give_back(void* block, std::size_t bytes) noexcept;

    /// What is kept for later, in bytes.
    std::size_t kept() const { return kept_; }

    static constexpr std::size_t largest_kept = std::size_t(16) << 20; ///< of one block
    static constexpr std::size_t most_kept = std::size_t(64) << 20;    ///< of all together

private:
    void clear();

    Get get_;
    Release release_;
    /// By size. Tests let the memory resource refuse.
    std::pmr::map<std::size_t, std::pmr::vector<void*>> free_;
    std::size_t kept_ = 0;
};

} // namespace towers
