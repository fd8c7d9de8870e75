// Reads global batches from a data set ahead of the steps that take them, for data that do not lie on the
// devices.
#pragma once

#include "engine/data/batch.h"
#include "engine/data/source.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace towers {

/// Sets record and epoch of the examples at positions `first`, `first` + 1, ..., as Sampler::fill() does.
using ExampleOrder = std::function<void(std::uint64_t first, std::span<Example> examples)>;

/// The shape of a BatchReader's work.
struct ReadAhead {
    std::uint32_t batch = 1;        ///< examples of each batch
    unsigned readers = 1;           ///< threads
    std::uint64_t end = UINT64_MAX; ///< no batch begins at this position or after it
    std::size_t table_bytes = 0;    ///< of a batch's tables
};

/// How many batches of so many bytes are kept: the one in use, the next, which towers may copy while they
/// compute, and one that is being read; up to 16 more to bridge pauses of a disk, within 256 MiB.
std::size_t batches_ahead(std::size_t batch_bytes);

/// A ring of batches in the host's memory. Threads fill it in the order of the examples; the bits of a
/// training depend on neither their number nor their speed.
class BatchReader {
public:
    /// Allocates the ring; `source` must outlive it. Reads nothing before the first at(). `tables`: of the
    /// batches; null: they have none.
    BatchReader(const DataSource& source, ExampleOrder order, const ReadAhead& ahead, MakeTables tables = {});
    BatchReader(const BatchReader&) = delete; // threads hold its address
    BatchReader& operator=(const BatchReader&) = delete;

    unsigned readers() const { return unsigned(threads_.size()); }

    /// The batch that begins at this position, with labels, images and tables; it stays until a call with
    /// another position. Waits until it has been read. The batches after it are read meanwhile. Throws what
    /// DataSource::read() threw for it. One thread at a time may call it.
    Batch at(std::uint64_t first);

    /// The batch after the one that at() gave last; without examples if it has not been read yet. It stays as
    /// long as that one. Any thread may call it.
    Batch next() const;

private:
    struct Entry {
        std::uint64_t first = 0;
        std::vector<Example> examples;
        std::vector<std::uint8_t> images;
        BatchTables tables;
        std::size_t claimed = 0, done = 0; ///< examples that a thread has begun and ended to read
        std::exception_ptr error;
    };
    Entry& entry(std::uint64_t number) { return ring_[number % ring_.size()]; }
    const Entry& entry(std::uint64_t number) const { return ring_[number % ring_.size()]; }
    std::uint64_t position(std::uint64_t number) const { return start_ + number * ahead_.batch; }
    bool has_work() const;
    bool is_read(std::uint64_t number) const;
    void restart(std::unique_lock<std::mutex>& lock, std::uint64_t first);
    void open();
    void work(const std::stop_token& stop);
    std::exception_ptr read(Entry& entry, std::size_t begin, std::size_t count) const;

    const DataSource& source_;
    ExampleOrder order_;
    MakeTables make_tables_;
    ReadAhead ahead_;
    std::size_t chunk_; ///< examples that a thread reads at a time
    std::vector<Entry> ring_;

    mutable std::mutex mutex_;
    std::condition_variable_any more_; ///< something to read
    std::condition_variable ended_;    ///< something has been read
    bool started_ = false;
    std::uint64_t start_ = 0;           ///< position of batch 0
    std::uint64_t front_ = 0;           ///< number of the batch that at() gave last
    std::uint64_t opened_ = 0;          ///< batches whose examples are known
    std::uint64_t given_ = 0;           ///< batches that threads have begun completely
    unsigned busy_ = 0;                 ///< threads that are reading
    std::vector<std::jthread> threads_; // last: they use the others
};

} // namespace towers
