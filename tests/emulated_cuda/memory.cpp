#include "tests/emulated_cuda/memory.h"

#include "tests/emulated_cuda/blocks.h"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace emulated {
namespace {

constexpr std::size_t window_bytes = std::size_t(1) << 40; ///< of addresses, most of them without memory
// Addresses of no process: those of x86-64 continue bit 47, those of 64-bit ARM are lower
constexpr std::uint64_t first_addresses[] = {0x8d'80'00'00'00'00'00'00u, 0x8e'80'00'00'00'00'00'00u};
constexpr std::uint64_t space_mask = ~(std::uint64_t(window_bytes) - 1);

struct Window {
    std::byte* begin = nullptr;
    std::size_t taken = window_bytes / 2; ///< kernels may compute with addresses before an allocation
};

// Never destroyed: kernels may run until the program ends.
auto& regions = *new std::map<std::uint64_t, Region>;
Window windows[2];
std::map<int, std::size_t>& used = *new std::map<int, std::size_t>;

Window& window_of(Space space) {
    Window& window = windows[std::size_t(space)];
    if (window.begin != nullptr) return window;
    void* const begin =
        mmap(nullptr, window_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) fail("there are no addresses for the cards' memory");
    window.begin = static_cast<std::byte*>(begin);
    return window;
}

std::size_t page_bytes() {
    static const auto bytes = std::size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// The whole pages of a region.
std::size_t pages_of(std::size_t bytes) { return rounded_up(rounded_up(bytes, 16), page_bytes()); }

} // namespace

const Region* allocate(std::size_t bytes, Space space, int device) {
    const std::size_t guard = 64 * page_bytes(), pages = pages_of(bytes);
    Window& window = window_of(space);
    if (window_bytes - window.taken < pages + guard) fail("the cards have used up all addresses");
    std::byte* const begin = window.begin + window.taken;
    if (mprotect(begin, pages, PROT_READ | PROT_WRITE) != 0) return nullptr;
    const std::size_t offset = window.taken + pages - rounded_up(bytes, 16);
    window.taken += pages + guard;
    constexpr std::uint32_t poison = 0x7fa5beef;
    for (std::byte* at = begin; at < begin + pages; at += sizeof poison)
        std::memcpy(at, &poison, sizeof poison);
    const std::uint64_t address = first_addresses[std::size_t(space)] + offset;
    if (space == Space::device) used[device] += bytes;
    return &regions
                .emplace(address, Region{.address = address,
                                         .bytes = bytes,
                                         .data = window.begin + offset,
                                         .space = space,
                                         .device = device})
                .first->second;
}

void release(const Region& region) {
    const std::size_t pages = pages_of(region.bytes);
    std::byte* const end = region.data + rounded_up(region.bytes, 16);
    if (region.space == Space::device) used[region.device] -= region.bytes;
    mmap(end - pages, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    regions.erase(region.address);
}

const Region* find_region(std::uint64_t address) {
    const auto after = regions.upper_bound(address);
    if (after == regions.begin()) return nullptr;
    const Region& region = std::prev(after)->second;
    return address <= region.address + region.bytes ? &region : nullptr;
}

const Region* find_mapped(const void* host) {
    const auto* const at = static_cast<const std::byte*>(host);
    for (const auto& [address, region] : regions)
        if (region.space == Space::mapped && at >= region.data && at < region.data + region.bytes)
            return &region;
    return nullptr;
}

std::size_t used_memory(int device) { return used[device]; }

bool is_device_address(std::uint64_t address) {
    for (const std::uint64_t first : first_addresses)
        if ((address & space_mask) == (first & space_mask)) return true;
    return false;
}

Space space_of(std::uint64_t address) {
    const bool mapped = (address & space_mask) == (first_addresses[1] & space_mask);
    return mapped ? Space::mapped : Space::device;
}

std::byte* place_of(std::uint64_t address) {
    const Space space = space_of(address);
    return window_of(space).begin + (address - first_addresses[std::size_t(space)]);
}

std::byte* place_of(std::uint64_t address, std::size_t bytes, const char* what) {
    const Region* const region = is_device_address(address) ? find_region(address) : nullptr;
    if (region == nullptr)
        fail(fmt::format("{} {:#x}, which is no device memory, or was freed", what, address));
    if (address + bytes > region->address + region->bytes)
        fail(fmt::format("{} {} bytes from {} on of an allocation of {}", what, bytes,
                         address - region->address, region->bytes));
    return region->data + (address - region->address);
}

} // namespace emulated
