#ifndef TOWERS_SHADERS_COLUMN_SUMS_H
#define TOWERS_SHADERS_COLUMN_SUMS_H

#include "vec4.h"

// Sums over the rows of a matrix whose columns are quads. A workgroup takes a block of `width` columns: neighbouring
// invocations have neighbouring columns, which are adjacent in memory. An invocation adds up every
// ROWS_AT_ONCE(width)-th row and leaves its sum in column_sums; add_up_invocations() adds up what the invocations of a
// column have. So the order of a sum depends only on the numbers of rows and columns.

// The columns of the block are those from `first` on. Which column the invocation has, and whether it has rows of it,
// or writes the result: the block may have fewer columns than `width`, and not all invocations may be needed.
#define COLUMN(first, width) ((first) + LOCAL_ID % (width))
#define HAS_ROWS(width) (LOCAL_ID < ROWS_AT_ONCE(width) * (width))
#define HAS_RESULT(width) (LOCAL_ID < (width))
// The first of the invocation's next rows in flight, from `begin` to before `end`
#define FOR_ROWS(row, begin, end, width)                                                                     \
    for (uint row = (begin) + LOCAL_ID / (width); row < (end); row += ROWS_IN_FLIGHT * ROWS_AT_ONCE(width))
#define FOR_ROWS_IN_FLIGHT(k) UNROLL for (uint k = 0u; k < ROWS_IN_FLIGHT; ++k)

// Two sums of each invocation, the second so many places behind the first
#define SECOND_SUM 256u
SHARED_QUADS(column_sums, 2u * SECOND_SUM);

// Adds up the invocations' sums: of each column into the place of its first invocation. `first`, `end`: 0u, 1u for the
// first sums, 1u, 2u for the second, 0u, 2u for both. An invocation may set its own sums again without a barrier.
FUNCTION void add_up_invocations(uint width, uint first, uint end) {
    barrier();
    for (uint rows = ROWS_AT_ONCE(width); rows > 1u;) {
        const uint kept = (rows + 1u) / 2u;
        if (LOCAL_ID < (rows - kept) * width) {
            for (uint i = first; i < end; ++i) {
                const uint here = i * SECOND_SUM + LOCAL_ID;
                column_sums[here] = vec4(column_sums[here]) + vec4(column_sums[here + kept * width]);
            }
        }
        barrier();
        rows = kept;
    }
}

#endif
