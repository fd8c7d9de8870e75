// The order in which the commands of a recording must run, for a backend that needs less than barriers say.
#pragma once

#include "backends/device.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace towers {

/// The memory that a command touches.
struct Footprint {
    struct Bytes {
        std::uint64_t begin, end; ///< addresses
        bool written;
    };
    std::vector<Bytes> bytes;
    bool known = true; ///< false: the command may touch any memory
};

/// Known if all of the launch's extents are.
Footprint footprint_of(const Launch& launch);
Footprint footprint_of(const Copy& copy);

/// A command must come after those from before a barrier that touch some of the same bytes, unless all only
/// read them.
class CommandOrder {
public:
    /// Adds a command. Returns the earlier ones that it must come after, numbered in the order of add(),
    /// without those that others of these come after anyway.
    std::vector<std::size_t> add(Footprint footprint);
    void barrier() { before_barrier_ = commands_.size(); }

private:
    struct Placed {
        Footprint footprint;
        std::vector<bool> after; ///< by number: whether it comes after that command
    };
    std::vector<Placed> commands_;
    std::size_t before_barrier_ = 0; ///< commands before the last barrier
};

} // namespace towers
