#include "engine/data/batch_queue.h"

#include "backends/error.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <doctest/doctest.h>
#include <future>
#include <mutex>
#include <numeric>
#include <vector>

namespace towers {
namespace {

using Waiting = BatchQueue::Waiting;

/// Takes all that is left, and returns the records.
std::vector<std::uint32_t> take_all(BatchQueue& queue) {
    std::vector<std::uint32_t> records;
    while (queue.take(Waiting::until_read, [&](const Batch& batch) {
        for (const Example& each : batch.examples) records.push_back(each.record);
    })) {
    }
    return records;
}

/// Images of one byte; reading waits until it is opened, and fails if it is broken.
class GatedSource final : public DataSource {
public:
    explicit GatedSource(std::size_t records)
        : DataSource({"gated", {"one"}, {1, 1, 1}}, std::vector<std::uint32_t>(records)) {}

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        std::unique_lock lock(mutex_);
        opened_.wait(lock, [this] { return open_; });
        if (broken) throw InputError("broken");
        for (std::size_t i = 0; i < records.size(); ++i) images[i] = std::uint8_t(records[i]);
    }
    void open() {
        const std::scoped_lock lock(mutex_);
        open_ = true;
        opened_.notify_all();
    }

    bool broken = false;

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable opened_;
    bool open_ = false;
};

} // namespace

TEST_CASE("threads take each record once, in whole batches with its images") {
    const Dataset data = test::noise(101);
    const std::size_t bytes = data.image_size().elements();
    BatchQueue queue(data, 7, 3);
    std::atomic<unsigned> wrong = 0;
    std::vector<std::future<std::vector<std::uint64_t>>> threads;
    for (int i = 0; i < 4; ++i)
        threads.push_back(std::async(std::launch::async, [&] {
            std::vector<std::uint64_t> firsts;
            while (queue.take(Waiting::until_read, [&](const Batch& batch) {
                firsts.push_back(batch.first);
                for (std::size_t k = 0; k < batch.examples.size(); ++k) {
                    const std::uint32_t record = batch.examples[k].record;
                    wrong += record != (batch.first + k) % 101;
                    wrong += !std::ranges::equal(batch.images.subspan(k * bytes, bytes),
                                                 data.images().subspan(record * bytes, bytes));
                }
            })) {
            }
            return firsts;
        }));
    std::vector<std::uint64_t> all;
    for (auto& each : threads) {
        const std::vector<std::uint64_t> its = each.get();
        CHECK(std::ranges::is_sorted(its));
        all.insert(all.end(), its.begin(), its.end());
    }
    std::ranges::sort(all);
    REQUIRE(all.size() == 15); // the last one has 3 records and the first 4 again
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == 7 * i);
    CHECK(wrong == 0);
}

TEST_CASE("who does not wait gets nothing that has not been read") {
    GatedSource data(4);
    BatchQueue queue(data, 2, 1);
    const auto nothing = [](const Batch&) { FAIL("a batch that nobody has read"); };
    CHECK_FALSE(queue.take(Waiting::not_at_all, nothing));
    data.open();
    CHECK(queue.take(Waiting::until_read, [](const Batch& batch) { CHECK(batch.first == 0); }));
    bool taken = false;
    while (!taken) // the thread is reading it
        taken = queue.take(Waiting::not_at_all, [](const Batch& batch) { CHECK(batch.first == 2); });
    CHECK_FALSE(queue.take(Waiting::not_at_all, nothing));
    CHECK_FALSE(queue.take(Waiting::until_read, nothing));
}

TEST_CASE("a closed queue has nothing left, and a source's error reaches who takes") {
    const Dataset data = test::noise(10);
    BatchQueue queue(data, 4, 2);
    CHECK(queue.take(Waiting::until_read, [](const Batch&) {}));
    queue.close();
    CHECK(take_all(queue).empty());

    GatedSource broken(4);
    broken.broken = true;
    broken.open();
    BatchQueue failing(broken, 2, 1);
    CHECK_THROWS_WITH_AS(take_all(failing), "broken", InputError);
}

} // namespace towers
