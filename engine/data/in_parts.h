// A loop over many examples, divided among threads.
#pragma once

#include <cstddef>
#include <functional>

namespace towers {

/// Calls part(begin, end) for consecutive ranges that make up [0, count), at the same time, and waits for
/// all. No range has fewer than `least` unless it is the only one: a thread should pay off. Where no thread
/// can start, the calling one does the rest. Throws what a part throws.
void in_parts(std::size_t count, std::size_t least,
              const std::function<void(std::size_t, std::size_t)>& part);

} // namespace towers
