// When a driver frees memory it waits for the card, so small blocks must be reused without it, and no memory
// may be lost.
#include "backends/block_pool.h"

#include <cstdlib>
#include <doctest/doctest.h>
#include <iterator>
#include <map>
#include <memory_resource>
#include <new>
#include <random>
#include <vector>

namespace towers {
namespace {

/// A driver with this many bytes.
struct Driver {
    std::size_t memory;
    std::map<void*, std::size_t> given = {};
    unsigned gets = 0, releases = 0;

    BlockPool pool() {
        return BlockPool(
            [this](std::size_t bytes) {
                if (bytes > memory) throw std::bad_alloc();
                void* const block = std::malloc(1); // a name for it
                given[block] = bytes;
                memory -= bytes;
                ++gets;
                return block;
            },
            [this](void* block) {
                REQUIRE(given.contains(block));
                memory += given[block];
                given.erase(block);
                std::free(block);
                ++releases;
            });
    }
};

constexpr std::size_t mib = 1 << 20;

/// During its lifetime std::pmr containers get no memory.
struct NoHostMemory {
    std::pmr::memory_resource* const before =
        std::pmr::set_default_resource(std::pmr::null_memory_resource());
    ~NoHostMemory() { std::pmr::set_default_resource(before); }
};

} // namespace

TEST_CASE("small freed blocks are reused without the driver") {
    Driver driver{100 * mib};
    {
        BlockPool pool = driver.pool();
        for (int i = 0; i < 100; ++i) {
            void *const a = pool.take(5000), *const b = pool.take(std::size_t(6000) + unsigned(i));
            CHECK(a != b);
            CHECK(driver.given[a] >= 5000);
            CHECK(driver.given[b] >= std::size_t(6000) + unsigned(i));
            pool.give_back(a, 5000);
            pool.give_back(b, std::size_t(6000) + unsigned(i));
        }
        CHECK(driver.gets == 2);
        CHECK(driver.releases == 0);
        CHECK(pool.kept() == 100 * mib - driver.memory);
        void* const large = pool.take(20 * mib);
        pool.give_back(large, 20 * mib);
        CHECK(driver.releases == 1);
    }
    CHECK(driver.memory == 100 * mib);
}

TEST_CASE("a pool keeps a limited amount, and returns it when memory is short") {
    Driver driver{100 * mib};
    BlockPool pool = driver.pool();
    std::vector<void*> blocks;
    for (int i = 0; i < 12; ++i) blocks.push_back(pool.take(8 * mib));
    for (void* block : blocks) pool.give_back(block, 8 * mib);
    CHECK(pool.kept() == BlockPool::most_kept);
    CHECK(driver.releases == 4);
    void* const large = pool.take(90 * mib);
    CHECK(pool.kept() == 0);
    CHECK_THROWS_AS(pool.take(90 * mib), std::bad_alloc);
    pool.give_back(large, 90 * mib);
    CHECK(driver.given.empty());
}

TEST_CASE("a block that cannot be noted down for want of memory goes back to the driver") {
    Driver driver{100 * mib};
    const NoHostMemory no_host_memory;
    BlockPool pool = driver.pool();
    for (int i = 0; i < 2; ++i) pool.give_back(pool.take(5000), 5000);
    CHECK(driver.given.empty());
    CHECK(driver.releases == 2);
    CHECK(pool.kept() == 0);
}

TEST_CASE("no two users of a pool have the same block, and none is lost") {
    Driver driver{1000 * mib};
    {
        BlockPool pool = driver.pool();
        std::mt19937 random(3);
        std::map<void*, std::size_t> used;
        for (int i = 0; i < 2000; ++i) {
            if (random() % 2 == 0 || used.empty()) {
                const std::size_t bytes = random() % (random() % 8 == 0 ? 20 * mib : 100000);
                void* const block = pool.take(bytes);
                CHECK(driver.given.at(block) >= bytes);
                CHECK(used.emplace(block, bytes).second);
            } else {
                const auto freed = std::next(used.begin(), std::ptrdiff_t(random() % used.size()));
                pool.give_back(freed->first, freed->second);
                used.erase(freed);
            }
        }
        for (const auto& [block, bytes] : used) pool.give_back(block, bytes);
    }
    CHECK(driver.memory == 1000 * mib);
}

} // namespace towers
