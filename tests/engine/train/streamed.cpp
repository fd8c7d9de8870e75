// Streamed data gives the bits of resident data.
#include "backends/error.h"
#include "engine/inference/evaluation.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/train/loop.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace towers {
namespace {

constexpr std::uint64_t steps = 7; // across the ends of epochs of 50 examples

using Change = std::function<void(TrainerOptions&)>;

/// Training on the towers with a feed.
TrainerOptions options_with(const std::vector<std::string>& towers, const FeedOptions& feed,
                            const Change& change) {
    TrainerOptions options = test::options_for(towers, 12);
    change(options);
    options.feed = feed;
    return options;
}

/// Streaming with so many readers gives the state of resident data.
void check_same_bits(const std::vector<std::string>& towers, const std::vector<unsigned>& readers,
                     const Change& change, const std::function<void(std::uint64_t step)>& before_step = {}) {
    const Dataset data = test::noise(50);
    const auto state_with = [&](const FeedOptions& feed) {
        Trainer trainer(test::small_recipe(), options_with(towers, feed, change), data);
        CHECK(trainer.readers() == feed.readers);
        for (std::uint64_t i = 0; i < steps; ++i) {
            if (before_step) before_step(i);
            trainer.step();
        }
        return trainer.save().state;
    };
    const std::vector<float> resident = state_with({Feeding::resident});
    for (const unsigned count : readers) {
        CAPTURE(count);
        const bool same = state_with({Feeding::streamed, count}) == resident;
        CHECK(same);
    }
}

/// A data set of which one record cannot be read.
class BrokenSource final : public DataSource {
public:
    explicit BrokenSource(const Dataset& data)
        : DataSource(data.info(), {data.labels().begin(), data.labels().end()}), data_(data) {}

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        for (const std::uint32_t record : records)
            if (record == 30) throw InputError("picture 30 has vanished");
        data_.read(records, images);
    }

private:
    const Dataset& data_;
};

/// A data set that takes its time.
class SlowSource final : public DataSource {
public:
    explicit SlowSource(const Dataset& data, std::chrono::milliseconds delay = std::chrono::milliseconds(3))
        : DataSource(data.info(), {data.labels().begin(), data.labels().end()}), data_(data), delay_(delay) {}

    using DataSource::read;
    void read(std::span<const std::uint32_t> records, std::span<std::uint8_t> images) const override {
        ++reads_;
        std::this_thread::sleep_for(delay_);
        data_.read(records, images);
        --reads_;
    }
    bool is_reading() const { return reads_ > 0; }

private:
    const Dataset& data_;
    std::chrono::milliseconds delay_;
    mutable std::atomic<int> reads_ = 0;
};

} // namespace

TEST_CASE("streamed data gives the bits of resident data on every device") {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        check_same_bits({id}, id == "cpu" ? std::vector<unsigned>{1, 4} : std::vector<unsigned>{2},
                        [](TrainerOptions&) {});
    }
}

TEST_CASE("streamed data gives the same bits with uneven, changing and idle towers") {
    const std::vector<std::string> three{"cpu", "cpu", "cpu"};
    check_same_bits(three, {1, 4}, [](TrainerOptions& options) {
        options.open.threads = 1;
        options.shares.weights = {5, 4, 3};
    });
    check_same_bits(three, {1, 4}, [](TrainerOptions& options) {
        options.open.threads = 1;
        options.shares.recorded = {{0, {4, 4, 4}}, {2, {7, 0, 5}}, {4, {4, 4, 4}}, {5, {1, 1, 10}}};
    });
}

TEST_CASE("streamed data gives the same bits in micro-batches and in a trace") {
    for (const std::vector<std::string>& towers : {std::vector<std::string>{"cpu"}, {"cpu", "cpu"}})
        check_same_bits(towers, {2}, [](TrainerOptions& options) {
            options.open.threads = 1;
            options.micro_batch = 4;
            options.trace = std::make_shared<Trace>(2);
        });
}

TEST_CASE("a tower that is lost leaves streamed examples to the others, who repeat the step") {
    for (const unsigned call : {0u, 1u, 2u}) { // of the third step
        CAPTURE(call);
        std::unique_ptr<test::Failure> failure;
        const Change fail = [&](TrainerOptions& options) {
            options.open.threads = 1;
            options.shares.weights = {5, 4, 3};
            options.outlive_devices = true;
            failure = std::make_unique<test::Failure>();
            test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
                return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(*failure));
            });
        };
        check_same_bits({"cpu", "cpu", "cpu"}, {1}, fail, [&](std::uint64_t step) {
            if (step == 2) failure->calls_left = call;
            if (step == 3) CHECK(failure->lost);
        });
    }
}

TEST_CASE("a run goes on in mid-epoch with another feed, and with the same bits") {
    const Dataset data = test::noise(50);
    const Change none = [](TrainerOptions&) {};
    for (const std::vector<std::string>& towers : {std::vector<std::string>{"cpu"}, {"cpu", "cpu"}}) {
        Trainer whole(test::small_recipe(), options_with(towers, {Feeding::resident}, none), data);
        for (std::uint64_t i = 0; i < 3; ++i) whole.step();
        const TrainingState middle = whole.save();
        for (std::uint64_t i = 3; i < steps; ++i) whole.step();
        Trainer other(test::small_recipe(), options_with(towers, {Feeding::streamed, 2}, none), data);
        other.step(); // has read ahead from the beginning
        for (int again = 0; again < 2; ++again) {
            other.load(middle);
            for (std::uint64_t i = 3; i < steps; ++i) other.step();
            const bool same = other.save().state == whole.save().state;
            CHECK(same);
        }
    }
}

TEST_CASE("an evaluation of streamed data finds what one of resident data finds") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(50);
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Evaluator resident(test::device(id), recipe, data, 16, Feeding::resident);
        Evaluator streamed(test::device(id), recipe, data, 16, Feeding::streamed);
        std::vector<Prediction> expected(data.size()), found(data.size());
        for (int again = 0; again < 2; ++again)
            for (std::size_t first : {0, 1}) {
                resident.run(state, {first, 1, 2}, {expected});
                streamed.run(state, {first, 1, 2}, {found});
            }
        for (std::size_t i = 0; i < data.size(); ++i) {
            CHECK(found[i].loss == expected[i].loss);
            CHECK(found[i].predicted == expected[i].predicted);
            CHECK(found[i].rank == expected[i].rank);
        }
    }
    const BrokenSource broken(data);
    Evaluator evaluator(test::device("cpu"), recipe, broken, 16, Feeding::streamed);
    std::vector<Prediction> predictions(data.size());
    CHECK_THROWS_WITH_AS(evaluator.run(state, {0, 1, 1}, {predictions}), "picture 30 has vanished", InputError);
}

TEST_CASE("test passes over streamed data find what those over resident data find, and change no training") {
    const Dataset data = test::noise(50), tests = test::noise(23);
    for (const std::vector<std::string>& towers : {std::vector<std::string>{"cpu"}, {"cpu", "cpu", "cpu"}}) {
        const auto train = [&](const FeedOptions& feed) {
            const Change none = [](TrainerOptions&) {};
            Trainer trainer(test::small_recipe(), options_with(towers, feed, none), data,
                            test::borrowed(tests));
            std::vector<double> losses;
            for (std::uint64_t i = 0; i < steps; ++i) {
                trainer.step();
                losses.push_back(trainer.test(false)->evaluation.loss_sum);
            }
            return std::pair(losses, trainer.save().state);
        };
        const auto expected = train({Feeding::resident});
        const auto found = train({Feeding::streamed, 2});
        CHECK(found.first == expected.first);
        const bool same = found.second == expected.second;
        CHECK(same);
    }
}

TEST_CASE("a test pass may wait for data as long as it takes") {
    const Dataset data = test::noise(50), tests = test::noise(23);
    const SlowSource slow(tests, std::chrono::milliseconds(300));
    TrainerOptions options = options_with({"cpu", "cpu"}, {Feeding::streamed, 1}, [](TrainerOptions&) {});
    // During a read a pause counts as a second, and 30 of them are too long: fewer than the read takes.
    const auto counts = [&slow](std::size_t) { return slow.is_reading() ? 1.0 : 0.0; };
    options.patience = Patience(30, {.length = std::chrono::milliseconds(5), .counts = counts});
    Trainer trainer(test::small_recipe(), options, data, test::borrowed(slow));
    for (int i = 0; i < 3; ++i) trainer.step();
    CHECK(trainer.test(false)->notice.empty());
    CHECK(trainer.shares() == std::vector<unsigned>{6, 6});
}

TEST_CASE("data that cannot be read ends the training with a checkpoint of the last step") {
    const Dataset data = test::noise(50);
    const BrokenSource broken(data);
    for (const std::vector<std::string>& towers : {std::vector<std::string>{"cpu"}, {"cpu", "cpu"}}) {
        const test::TemporaryFolder folder;
        TrainerOptions options = options_with(towers, {Feeding::streamed, 2}, [](TrainerOptions&) {});
        options.shuffle = false; // record 30 is in the third batch
        const LoopOptions loop{.steps = 5,
                               .save_every = 0,
                               .keep = 0,
                               .log_every = 1,
                               .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
                               .global_batch = 12};
        Trainer trainer(test::small_recipe(), options, broken);
        RunDirectory run(folder.path(), Existing::refuse);
        save_checkpoint(trainer, run, loop);
        const std::string words = "picture 30 has vanished; the last checkpoint is " +
                                  run.checkpoint_path(2).string() + ": go on from it with --resume";
        CHECK(test::input_error([&] { train(trainer, run, loop, false, {}); }) == words);
        CHECK(checkpoint_steps(run.path()) == std::vector<std::uint64_t>{0, 2});
        Trainer sound(test::small_recipe(), options, data);
        for (int i = 0; i < 2; ++i) sound.step();
        const bool same = sound.save().state == trainer.save().state;
        CHECK(same);
    }
}

TEST_CASE("waiting for data counts as such, and changes no bits") {
    const Dataset data = test::noise(50);
    const SlowSource slow(data);
    const Change none = [](TrainerOptions&) {};
    Trainer waits(test::small_recipe(), options_with({"cpu"}, {Feeding::streamed, 1}, none), slow);
    Trainer does_not(test::small_recipe(), options_with({"cpu"}, {Feeding::resident}, none), data);
    for (std::uint64_t i = 0; i < steps; ++i) {
        const double before = waits.seconds();
        const StepReport report = waits.step();
        does_not.step();
        if (i == 0) CHECK(report.host_seconds < waits.seconds() - before - 0.003); // nothing was read yet
    }
    CHECK(waits.host_use().data >= 0.003);
    CHECK(does_not.host_use().data == 0);
    const bool same = waits.save().state == does_not.save().state;
    CHECK(same);
}

TEST_CASE("data that fits the devices is resident, more is streamed") {
    const Dataset data = test::noise(100); // 307,200 bytes
    const auto chosen = [&](std::vector<std::string> ids, std::uint64_t free) {
        std::vector<std::unique_ptr<Device>> devices;
        std::vector<Device*> pointers;
        for (const std::string& id : ids) {
            devices.push_back(std::make_unique<test::ScriptedDevice>(
                std::make_unique<test::SimulatedDevice>(id, [](unsigned) { return 0; }),
                test::Script{.free_memory = [free](std::uint64_t) { return free; }}));
            pointers.push_back(devices.back().get());
        }
        CHECK(streams(Feeding::streamed, data, pointers));
        CHECK_FALSE(streams(Feeding::resident, data, pointers));
        return streams(Feeding::automatic, data, pointers);
    };
    CHECK_FALSE(chosen({"a"}, 614'400));
    CHECK(chosen({"a"}, 614'399));
    CHECK_FALSE(chosen({"a", "b"}, 614'400));
    CHECK(chosen({"a", "a"}, 614'400)); // the towers share the device's memory
    CHECK_FALSE(chosen({"a", "a"}, 1'228'800));
    CHECK_FALSE(chosen({"a"}, Device::not_told));
}

TEST_CASE("resident data above what kernels can address is refused with advice") {
    /// Images of 2^31 bytes, which nobody reads.
    class Huge final : public DataSource {
    public:
        Huge() : DataSource({"huge", {"one"}, {32768, 32768, 2}}, {0, 0, 0, 0}) {}
        using DataSource::read;
        void read(std::span<const std::uint32_t>, std::span<std::uint8_t>) const override {}
    };
    CHECK(streams(Feeding::automatic, Huge(), {}));
    CHECK(test::input_error([] { streams(Feeding::resident, Huge(), {}); }) ==
          "--feed resident: the training images have 8589934592 bytes, and a device can hold at most "
          "8589934591; give --feed streamed");
}

TEST_CASE("the log says once that the devices wait for data, and not when they hardly do") {
    const auto told = [](double waited, int count) {
        DataWatch watch(2, "more --readers");
        std::string lines;
        for (int i = 0; i < count; ++i) lines += watch.observe(0.5, i == 0 ? 0.5 : waited, 64);
        return lines;
    };
    CHECK(told(0.02, 100).empty());
    CHECK(told(0.2, 10).empty()); // too short
    CHECK(told(0.2, 100) ==
          "the devices wait for data 40 % of the time: 2 readers bring 128.0 examples/s; try more --readers");
}

} // namespace towers
