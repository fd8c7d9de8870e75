#include "backends/cpu/host_memory.h"

#include "backends/arithmetic.h"
#include "backends/cpu/huge_pages.h"
#include "backends/device.h"
#include "backends/headroom.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <utility>

namespace towers {
namespace {

constexpr std::size_t page = std::size_t(64) << 10; ///< a whole number of pages on every processor
constexpr std::size_t guard = 4 * page;
constexpr std::byte canary{0xff}; ///< so that floats beside the memory are NaN

} // namespace

HostMemory::HostMemory(const char* owner, std::size_t bytes, bool guarded) : bytes_(bytes) {
    const auto require = [&](bool success) {
        if (!success) throw OutOfMemory(fmt::format("{}: no memory for {} bytes", owner, bytes));
    };
    const std::size_t size = std::max(slice_alignment, aligned(bytes));
    require_memory(owner, size);
    if (!guarded) {
        void* memory = nullptr;
        require(posix_memalign(&memory, size >= 2 * huge_page ? huge_page : slice_alignment, size) == 0);
        data_ = static_cast<std::byte*>(memory);
        ask_for_huge_pages(memory, size);
        return;
    }
    const std::size_t pages = ceil_div(size, page) * page;
    void* const memory = mmap(nullptr, pages + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED);
    guards_ = static_cast<std::byte*>(memory);
    with_guards_ = pages + 2 * guard;
    require(mprotect(guards_ + guard, pages, PROT_READ | PROT_WRITE) == 0);
    std::memset(guards_ + guard, int(canary), pages);
    data_ = guards_ + guard + pages - size; // what lies behind it matters most
}

HostMemory::~HostMemory() {
    if (guards_ == nullptr) {
        std::free(data_);
        return;
    }
    require_intact();
    munmap(guards_, with_guards_);
}

void HostMemory::require_intact() const {
    if (guards_ == nullptr) return;
    const auto whole = [](const std::byte* begin, const std::byte* end) {
        return std::all_of(begin, end, [](std::byte each) { return each == canary; });
    };
    const bool before = whole(guards_ + guard, data_);
    const bool behind = whole(data_ + bytes_, guards_ + with_guards_ - guard);
    if (before && behind) return;
    std::fprintf(stderr, "something was written %s memory of %zu bytes\n", before ? "behind" : "before",
                 bytes_);
    std::abort();
}

void HostMemory::swap(HostMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(guards_, other.guards_);
    std::swap(with_guards_, other.with_guards_);
}

} // namespace towers
