#include "engine/data/batch_queue.h"

namespace towers {

BatchQueue::BatchQueue(const DataSource& source, unsigned batch, unsigned readers)
    : records_(source.size()), batch_(batch),
      reader_(source,
              [records = records_](std::uint64_t first, std::span<Example> examples) {
                  for (Example& each : examples) each = {.record = std::uint32_t(first++ % records)};
              },
              {.batch = batch, .readers = readers, .end = records_}) {}

bool BatchQueue::take(Waiting waiting, const std::function<void(const Batch&)>& use) {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (waiting == Waiting::until_read)
        lock.lock();
    else if (!lock.try_lock())
        return false;
    if (next_ >= records_) return false;
    if (waiting == Waiting::not_at_all && reader_.next().examples.empty()) return false;
    const Batch batch = reader_.at(next_);
    next_ += batch_;
    use(batch);
    return true;
}

void BatchQueue::close() {
    const std::scoped_lock lock(mutex_);
    next_ = records_;
}

} // namespace towers
