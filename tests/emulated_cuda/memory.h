// The memory of the emulated cards. A device address is none that a processor can follow, so that a host that
// tries faults; kernels get the address where the memory really lies. Each allocation ends where access ends,
// and its addresses are never used again, so that what lies beyond it or was freed faults too. The caller
// keeps others out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated {

enum class Space {
    device, ///< a card's own memory
    mapped, ///< the host's memory under the card's addresses
};

struct Region {
    std::uint64_t address; ///< the device's
    std::size_t bytes;
    std::byte* data; ///< where it lies
    Space space;
    int device; ///< that was current
};

/// New memory full of NaN; null if there is none.
const Region* allocate(std::size_t bytes, Space space, int device);
void release(const Region& region);

/// The region with this device address, which may be its end; null if there is none.
const Region* find_region(std::uint64_t address);
/// The region in mapped space with this host address; null if there is none.
const Region* find_mapped(const void* host);

/// Bytes in use of a card's own memory.
std::size_t used_memory(int device);

bool is_device_address(std::uint64_t address);
Space space_of(std::uint64_t device_address);
/// Where a device address lies, or would lie if memory were there.
std::byte* place_of(std::uint64_t address);
/// The same for bytes that must all be there. `what` begins the message that ends the program if they are
/// not.
std::byte* place_of(std::uint64_t address, std::size_t bytes, const char* what);

} // namespace emulated
