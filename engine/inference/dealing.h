// How the batches of a data set are dealt to towers in turn: of n towers, tower i gets batches i, i + n, ...
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace towers {

/// The batches of `count` neighbouring towers, from tower `first` on, of `all`.
struct Dealing {
    std::size_t first, count, all;

    /// Their batches, in order, by number.
    std::size_t batch(std::size_t own) const { return own / count * all + first + own % count; }

    /// Calls visit(begin, end) with the records of each of their batches, in order. `batch_size`: records of
    /// each but the last of all.
    template<class Visit>
    void for_each(std::uint64_t records, std::uint64_t batch_size, const Visit& visit) const {
        for (std::size_t own = 0;; ++own) {
            const std::uint64_t begin = batch(own) * batch_size;
            if (begin >= records) return;
            visit(begin, std::min(begin + batch_size, records));
        }
    }
};

} // namespace towers
