// Memory of a CPU device: tensors, scratch memory, and oneDNN's own copies of weights.
#pragma once

#include <cstddef>

namespace towers {

/// Movable. Memory with guards is for tests: an access behind it, or a page or more before it, crashes. What
/// is written closer before it or up to 255 bytes behind it ends the program with a message when the memory
/// is freed.
class HostMemory {
public:
    HostMemory() = default;
    /// Its contents are undefined. Aligned to 256 bytes, large memory to huge pages, which it asks for.
    /// Throws OutOfMemory; `owner` names the device in the message.
    HostMemory(const char* owner, std::size_t bytes, bool guarded);
    HostMemory(HostMemory&& other) noexcept { swap(other); }
    HostMemory& operator=(HostMemory&& other) noexcept {
        swap(other);
        return *this;
    }
    ~HostMemory();

    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

    /// Ends the program if something was written beside guarded memory.
    void require_intact() const;

private:
    void swap(HostMemory& other) noexcept;

    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::byte* guards_ = nullptr; ///< where the guard before the memory begins; null: none
    std::size_t with_guards_ = 0; ///< bytes
};

} // namespace towers
