#include "engine/data/batch_reader.h"
#include "backends/error.h"
#include "engine/data/feed.h"
#include "engine/data/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace towers {
namespace {

/// Images of two bytes, which tell the record; reading waits or fails as a test asks.
class ScriptedSource final : public DataSource {
public:
    explicit ScriptedSource(std::uint32_t records)
        : DataSource({"scripted", {"one", "two", "three"}, {1, 2, 1}}, labels_of(records)) {}

    static std::vector<std::uint32_t> labels_of(std::uint32_t records) {
        std::vector<std::uint32_t> labels(records);
        for (std::uint32_t i = 0; i < records; ++i) labels[i] = i % 3;
        return labels;
    }

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        std::unique_lock lock(mutex_);
        open_.wait(lock, [&] { return !closed_; });
        for (std::size_t i = 0; i < records.size(); ++i) {
            if (records[i] == broken) throw InputError(fmt::format("record {} is broken", records[i]));
            images[2 * i] = std::uint8_t(records[i]);
            images[2 * i + 1] = std::uint8_t(records[i] >> 8);
        }
        read_ += records.size();
    }
    /// Makes reading wait, or not any more.
    void close(bool closed) {
        const std::lock_guard lock(mutex_);
        closed_ = closed;
        open_.notify_all();
    }
    std::size_t count() const {
        const std::lock_guard lock(mutex_);
        return read_;
    }

    std::uint32_t broken = UINT32_MAX;

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable open_;
    bool closed_ = false;
    mutable std::size_t read_ = 0;
};

ExampleOrder order_of(std::uint32_t records, std::uint64_t seed) {
    return [sampler = Sampler(records, seed, true)](std::uint64_t first, std::span<Example> out) mutable {
        sampler.fill(first, out);
    };
}

/// Only a test that fails waits so long.
template<class Condition>
void wait_until(const Condition& condition) {
    for (int i = 0; i < 60'000 && !condition(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(condition());
}

bool are_of_their_records(const Batch& batch) {
    for (std::size_t i = 0; i < batch.examples.size(); ++i)
        if (batch.images[2 * i] + batch.images[2 * i + 1] * 256u != batch.examples[i].record ||
            batch.examples[i].label != batch.examples[i].record % 3)
            return false;
    return batch.images.size() == 2 * batch.examples.size();
}

} // namespace

TEST_CASE("each epoch has each example once, whatever the feed, the batch and the towers") {
    std::mt19937 random(11);
    std::size_t wrong = 0;
    for (unsigned trial = 0; trial < 1000; ++trial) {
        const std::uint32_t records = 1 + random() % 60, batch = 1 + random() % 40, towers = 1 + random() % 5;
        const ScriptedSource source(records);
        Sampler sampler(records, trial, true);
        ResidentFeed resident(source);
        BatchReader reader(source, order_of(records, trial), {.batch = batch, .readers = 1 + trial % 3});
        const std::uint64_t start = random() % 100;
        std::vector<std::vector<unsigned>> seen(3,
                                                std::vector<unsigned>(records)); // by epoch after the start
        const std::uint64_t begin = (start + records - 1) / records * records;   // of a whole epoch
        std::vector<Example> expected(batch);
        for (std::uint64_t at = start; at < begin + 2 * std::uint64_t(records); at += batch) {
            const Batch streamed = reader.at(at);
            sampler.fill(at, expected);
            resident.bring(expected);
            if (!are_of_their_records(streamed) || streamed.first != at) ++wrong;
            std::size_t place = 0;
            for (unsigned tower = 0; tower < towers; ++tower) { // some may be idle
                const std::size_t share =
                    tower + 1 == towers ? batch - place : random() % (batch - place + 1);
                const Batch part = streamed.slice(place, share);
                for (std::size_t i = 0; i < share; ++i, ++place) {
                    const Example& example = part.examples[i];
                    if (expected[place].slot != example.record || expected[place].label != example.label ||
                        expected[place].epoch != example.epoch)
                        ++wrong;
                    if (part.first + i >= begin && part.first + i < begin + 2 * std::uint64_t(records))
                        ++seen[std::size_t(example.epoch - begin / records)][example.record];
                }
            }
        }
        for (const std::size_t epoch : {0, 1})
            wrong +=
                std::size_t(std::ranges::count_if(seen[epoch], [](unsigned times) { return times != 1; }));
    }
    CHECK(wrong == 0);
}

TEST_CASE("a batch stays until the next one is asked for, and any position can be next") {
    const ScriptedSource source(50);
    BatchReader reader(source, order_of(50, 3), {.batch = 8, .readers = 2});
    CHECK(reader.next().examples.empty()); // nothing is asked for yet
    Sampler sampler(50, 3, true);
    std::vector<Example> expected(8);
    for (const std::uint64_t at : {0, 8, 8, 16, 7, 7, 15, 1000, 0}) {
        CAPTURE(at);
        const Batch batch = reader.at(at);
        sampler.fill(at, expected);
        CHECK(are_of_their_records(batch));
        CHECK(std::ranges::equal(batch.examples, expected, {}, &Example::record, &Example::record));
        wait_until([&] { return !reader.next().examples.empty(); });
        CHECK(reader.next().first == at + 8);
        CHECK(are_of_their_records(reader.next()));
        CHECK(reader.at(at).images.data() == batch.images.data());
    }
}

TEST_CASE("batches are read ahead as far as the ring goes, and not beyond the end") {
    CHECK(batches_ahead(1) == 19);
    CHECK(batches_ahead(std::size_t(32) << 20) == 8);
    CHECK(batches_ahead(std::size_t(1) << 30) == 3);
    for (const std::uint64_t end : {std::uint64_t(40), UINT64_MAX}) {
        CAPTURE(end);
        const ScriptedSource source(50);
        BatchReader reader(source, order_of(50, 3), {.batch = 8, .readers = 3, .end = end});
        reader.at(0);
        const std::size_t most = end == 40 ? 40 : 19 * 8;
        wait_until([&] { return source.count() == most; });
        if (end == 40) {
            reader.at(32);
            CHECK(reader.next().examples.empty());
        } else {
            reader.at(8);
            wait_until([&] { return source.count() == most + 8; });
        }
    }
}

TEST_CASE("a step waits for its batch, and the next one is not there before it has been read") {
    ScriptedSource source(50);
    source.close(true);
    BatchReader reader(source, order_of(50, 3), {.batch = 8, .readers = 1});
    std::atomic<bool> there = false;
    std::jthread step([&] {
        CHECK(are_of_their_records(reader.at(0)));
        there = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK_FALSE(there);
    CHECK(reader.next().examples.empty());
    source.close(false);
    step.join();
    CHECK(there);
}

TEST_CASE("a record that cannot be read ends the step that needs it, and no other") {
    for (const unsigned readers : {1, 4}) {
        ScriptedSource source(50);
        const ExampleOrder in_order = [](std::uint64_t first, std::span<Example> examples) {
            for (Example& example : examples) example = {.record = std::uint32_t(first++ % 50)};
        };
        source.broken = 21;
        BatchReader reader(source, in_order, {.batch = 8, .readers = readers});
        CHECK(are_of_their_records(reader.at(0)));
        CHECK(are_of_their_records(reader.at(8)));
        for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(reader.at(16), "record 21 is broken", InputError);
        CHECK(are_of_their_records(reader.at(24)));
        CHECK_THROWS_AS(reader.at(20), InputError);
        CHECK(are_of_their_records(reader.at(22)));
    }
}

TEST_CASE("an order that throws reaches the step too") {
    const ScriptedSource source(50);
    const ExampleOrder none = [](std::uint64_t, std::span<Example>) { throw InputError("no order"); };
    BatchReader reader(source, none, {.batch = 8, .readers = 2});
    CHECK_THROWS_WITH_AS(reader.at(0), "no order", InputError);
}

TEST_CASE("a reader that ends waits only for what its threads are reading") {
    for (int i = 0; i < 50; ++i) {
        ScriptedSource source(500);
        BatchReader reader(source, order_of(500, 3), {.batch = 64, .readers = 4});
        if (i % 2 == 0) reader.at(0);
    }
    ScriptedSource source(500);
    source.close(true);
    std::jthread later;
    {
        BatchReader reader(source, order_of(500, 3), {.batch = 64, .readers = 1});
        std::jthread step([&] { reader.at(0); });
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        source.close(false);
        step.join();
        source.close(true);
        later = std::jthread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            source.close(false);
        });
    }
    CHECK(source.count() <= 21 * 64); // the ring, and what was being read
}

} // namespace towers
