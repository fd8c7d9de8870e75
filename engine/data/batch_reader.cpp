#include "engine/data/batch_reader.h"

#include "backends/headroom.h"

#include <algorithm>
#include <utility>

namespace towers {

std::size_t batches_ahead(std::size_t batch_bytes) {
    constexpr std::size_t least = 3, most = least + 16, bytes = std::size_t(256) << 20;
    return std::clamp(bytes / std::max<std::size_t>(batch_bytes, 1), least, most);
}

BatchReader::BatchReader(const DataSource& source, ExampleOrder order, const ReadAhead& ahead,
                         MakeTables tables)
    : source_(source), order_(std::move(order)), make_tables_(std::move(tables)), ahead_(ahead),
      // Threads share a batch, so that the next one is there soon; a few chunks each even out their times.
      chunk_(std::max<std::size_t>(1, ahead.batch / (std::size_t(4) * ahead.readers))) {
    const std::size_t bytes = ahead.batch * source.image_size().elements();
    ring_.resize(batches_ahead(bytes + ahead.table_bytes));
    for (Entry& each : ring_) {
        each.examples.resize(ahead.batch);
        each.images.resize(bytes);
    }
    for (unsigned i = 0; i < ahead.readers; ++i)
        threads_.push_back(start_thread([this](const std::stop_token& stop) { work(stop); }));
}

Batch BatchReader::at(std::uint64_t first) {
    std::unique_lock lock(mutex_);
    if (!started_ || first != position(front_)) {
        if (started_ && first == position(front_ + 1))
            ++front_;
        else
            restart(lock, first);
        more_.notify_all();
    }
    ended_.wait(lock, [this] { return is_read(front_); });
    const Entry& found = entry(front_);
    if (found.error) std::rethrow_exception(found.error);
    return Batch::all(found.first, found.examples, found.images, found.tables);
}

Batch BatchReader::next() const {
    const std::lock_guard lock(mutex_);
    if (!started_ || !is_read(front_ + 1) || entry(front_ + 1).error) return {};
    const Entry& found = entry(front_ + 1);
    return Batch::all(found.first, found.examples, found.images, found.tables);
}

/// Begins anew at this position, when no thread is reading for the old one any more.
void BatchReader::restart(std::unique_lock<std::mutex>& lock, std::uint64_t first) {
    started_ = false;
    ended_.wait(lock, [this] { return busy_ == 0; });
    start_ = first;
    front_ = opened_ = given_ = 0;
    started_ = true;
}

bool BatchReader::has_work() const {
    return started_ && given_ < front_ + ring_.size() && position(given_) < ahead_.end;
}

bool BatchReader::is_read(std::uint64_t number) const {
    return number < opened_ && entry(number).done == ahead_.batch;
}

/// Chooses the examples of the next batch.
void BatchReader::open() {
    Entry& next = entry(opened_);
    next.first = position(opened_);
    next.claimed = next.done = 0;
    next.error = nullptr;
    ++opened_;
    try {
        order_(next.first, next.examples);
        for (Example& each : next.examples) each.label = source_.labels()[each.record];
    } catch (...) {
        next.error = std::current_exception();
    }
}

void BatchReader::work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (more_.wait(lock, stop, [this] { return has_work(); }) && !stop.stop_requested()) {
        if (given_ == opened_) open();
        Entry& current = entry(given_);
        const std::size_t begin = current.claimed, count = std::min(chunk_, ahead_.batch - begin);
        current.claimed += count;
        if (current.claimed == ahead_.batch) ++given_;
        std::exception_ptr error = current.error;
        if (!error) { // otherwise nobody will use the images
            ++busy_;
            lock.unlock();
            error = read(current, begin, count);
            lock.lock();
            --busy_;
        }
        if (error && !current.error) current.error = error;
        current.done += count;
        if (current.done == ahead_.batch || busy_ == 0) ended_.notify_all();
    }
}

std::exception_ptr BatchReader::read(Entry& entry, std::size_t begin, std::size_t count) const {
    try {
        if (begin == 0 && make_tables_) entry.tables = make_tables_(entry.first, entry.examples);
        std::vector<std::uint32_t> records(count);
        for (std::size_t i = 0; i < count; ++i) records[i] = entry.examples[begin + i].record;
        const std::size_t image = source_.image_size().elements();
        source_.read(records, std::span(entry.images).subspan(begin * image, count * image));
        return nullptr;
    } catch (...) {
        return std::current_exception();
    }
}

} // namespace towers
