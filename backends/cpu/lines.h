// Joins rows of few channels into lines that are long enough for a vectorized loop. A line repeats each
// channel's values once per row.
#pragma once

#include "shaders/kernel.h"

#include <algorithm>
#include <type_traits>

namespace towers {

constexpr uint least_width = 64; ///< of a line, so that starting its loop pays

struct Lines {
    uint channels, rows; ///< of a line

    explicit Lines(uint channel_count)
        : channels(channel_count), rows((least_width + channel_count - 1) / channel_count) {}
    uint width() const { return rows * channels; }
};

[[gnu::always_inline]] inline void repeat_row(const Lines& lines, float* line) {
    for (uint row = 1; row < lines.rows; ++row)
        for (uint c = 0; c < lines.channels; ++c) line[row * lines.channels + c] = line[c];
}

/// Adds the rows of a line into its first row.
[[gnu::always_inline]] inline void join_rows(const Lines& lines, float* line) {
    for (uint row = 1; row < lines.rows; ++row)
        for (uint c = 0; c < lines.channels; ++c) line[c] += line[row * lines.channels + c];
}

/// Calls add(integral constant of the number of lines, offset, width) with whole lines, four at a time as
/// long as possible, and then with the last rows.
template<class Add>
[[gnu::always_inline]] inline void for_lines(const Lines& lines, uint rows, Add add) {
    const uint width = lines.width(), whole = rows / lines.rows;
    uint line = 0;
    for (; line + 4 <= whole; line += 4)
        add(std::integral_constant<uint, 4>(), std::size_t(line) * width, width);
    for (; line < whole; ++line) add(std::integral_constant<uint, 1>(), std::size_t(line) * width, width);
    if (const uint rest = rows % lines.rows; rest > 0)
        add(std::integral_constant<uint, 1>(), std::size_t(whole) * width, rest * lines.channels);
}

/// For this thread's share of all lines: calls `prepare` with a group before the group's first line, and
/// `write` with each line's place and width.
template<class Prepare, class Write>
[[gnu::always_inline]] inline void for_lines_of_groups(const Lines& lines, uint groups, uint rows,
                                                       Invocation invocation, Prepare prepare, Write write) {
    const uint in_group = (rows + lines.rows - 1) / lines.rows;
    const uint begin = invocation.begin(groups * in_group);
    const uint end = invocation.end(groups * in_group);
    for (uint line = begin; line < end; ++line) {
        const uint group = line / in_group, row = line % in_group * lines.rows;
        if (line == begin || row == 0) prepare(group);
        write((std::size_t(group) * rows + row) * lines.channels,
              std::min(lines.rows, rows - row) * lines.channels);
    }
}

} // namespace towers
