// Sums over the rows of [groups, rows, channels], two for each channel of each group: all threads make those
// of chunks of rows, then merge 64 chunks into one until each group has one.
#pragma once

#include "backends/arithmetic.h"
#include "backends/cpu/threads.h"

#include <algorithm>

namespace towers {

/// Of each chunk, [groups, chunks, channels]
struct RowSums {
    float *first, *second;
};

struct RowChunks {
    uint groups, rows, channels;
    uint chunk_rows; ///< of which the last chunk of a group may have fewer

    uint in_group() const { return uint(ceil_div(rows, chunk_rows)); }
    std::size_t sums() const { return std::size_t(groups) * in_group() * channels; }
    /// Chunks of 64 of these
    RowChunks merged() const { return {groups, rows, channels, chunk_rows * run}; }

    static constexpr uint run = 64;
};

/// Merges chunks into those of chunks.merged().
using MergeRowSums = void (*)(const RowChunks& chunks, const RowSums& from, const RowSums& to, Invocation);
void merge_sums(const RowChunks& chunks, const RowSums& from, const RowSums& to, Invocation invocation);

/// `kernel` makes the sums of the chunks; `results`: of the groups
template<class Params>
Work sums_over_rows(CpuContext& context, const Params& p, const RowChunks& chunks, const RowSums& results,
                    void (*kernel)(const Params&, const RowChunks&, const RowSums&, Invocation),
                    MergeRowSums merge) {
    const auto on_all = [&context](auto part) {
#pragma omp parallel num_threads(int(context.threads))
        part(Invocation{uint(omp_get_thread_num()), uint(omp_get_num_threads())});
    };
    const Scratch scratch =
        Scratch::of_floats(context, chunks.in_group() > 1 ? 2 * (chunks.sums() + chunks.merged().sums()) : 0);
    return [=] {
        RowChunks left = chunks;
        // Where the sums of the next chunks go: behind the last ones, over the ones before
        RowSums buffers[] = {{scratch.floats(), scratch.floats() + chunks.sums()}, {}};
        buffers[1].first = scratch.floats() + 2 * chunks.sums();
        buffers[1].second = buffers[1].first + chunks.merged().sums();
        const auto place = [&](const RowChunks& of, unsigned turn) {
            return of.in_group() == 1 ? results : buffers[turn % 2];
        };
        RowSums sums = place(left, 0);
        on_all([&](Invocation invocation) { kernel(p, left, sums, invocation); });
        for (unsigned turn = 1; left.in_group() > 1; ++turn) {
            const RowSums next = place(left.merged(), turn);
            on_all([&](Invocation invocation) { merge(left, sums, next, invocation); });
            left = left.merged();
            sums = next;
        }
    };
}

} // namespace towers
