// Deals the batches of a data set to several threads: each takes the next one when it can use it.
#pragma once

#include "engine/data/batch_reader.h"

#include <cstdint>
#include <functional>
#include <mutex>

namespace towers {

/// All records in their order, read ahead by threads. The last batch is filled with the first records again.
class BatchQueue {
public:
    /// `source` must outlive it. `batch`: examples of each batch.
    BatchQueue(const DataSource& source, unsigned batch, unsigned readers);

    unsigned batch() const { return batch_; }

    enum class Waiting { until_read, not_at_all };
    /// Calls use() with the next batch, which is valid only meanwhile. Returns false, without calling it, if
    /// no batch is left, or if the caller does not wait and it has not been read yet, or another thread takes
    /// one. From any thread; use() keeps the others waiting. Throws what DataSource::read() threw.
    bool take(Waiting waiting, const std::function<void(const Batch&)>& use);

    /// Leaves no batch for anybody: one of the threads has failed.
    void close();

private:
    std::uint64_t records_;
    unsigned batch_;
    std::mutex mutex_;
    BatchReader reader_;
    std::uint64_t next_ = 0; ///< position of the batch that comes next
};

} // namespace towers
