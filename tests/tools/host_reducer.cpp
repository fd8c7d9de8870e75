// Measures the host's part of a step. With one tower: the time of a step on a device that has nothing to do.
// With several: the host reducer's bytes per second compared with a plain copy of as many bytes by as many
// threads, and which part of simulated towers' rate remains beside it, of equal and of unlike ones.
//
// Usage: host_reducer [THREADS]
// THREADS: the reducer's; 0 or absent: one for each processor. "alone": only one tower is measured.

#include "engine/reduce/host_reducer.h"
#include "backends/backend.h"
#include "engine/bench/averaging_bench.h"
#include "engine/clock.h"
#include "engine/observers/metrics.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/shares/shares.h"
#include "engine/train/loop.h"
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

/// Reads so much memory that no cache keeps older data.
void cool_caches() {
    static std::vector<std::uint64_t> large(std::size_t(96) << 20); // 768 MiB
    for (std::size_t i = 0; i < large.size(); i += 8) ++large[i];
}

double seconds_of(const std::function<void()>& work) {
    const Clock::time_point begin = Clock::now();
    work();
    return seconds_since(begin);
}

void measure_bandwidth(const std::string& name, unsigned threads) {
    constexpr int repetitions = 3;
    for (const unsigned towers : {2u, 4u}) {
        AveragingBench bench(find_recipe(name), towers, threads);
        for (int i = 0; i < repetitions; ++i) bench.repeat(cool_caches);
        const AveragingFigures figures = bench.figures();
        fmt::print(
            "{:<20} {:>6.1f} MB, {} towers: {:>6.2f} GB/s, memcpy {:>6.2f} GB/s, ratio {:.2f} ({:.2f} - "
            "{:.2f})\n",
            name, double(figures.bytes) / 1e6, towers, figures.gb_per_s.median,
            figures.memcpy_gb_per_s.median, figures.ratio.median, figures.ratio.min, figures.ratio.max);
        std::fflush(stdout);
    }
}

/// A network of one layer on images of a pixel.
Recipe smallest_recipe() {
    return parse_recipe("smallest", R"(
[input]
shape = [1, 1, 1]
classes = 2
[network]
layers = [ { name = "logits", kind = "dense", units = 2 } ]
[pipeline]
values = "normalized"
mean = [0.5]
deviation = [0.5]
[optimizer]
kind = "sgd"
learning_rate = 0.1
[training]
batch = 128
steps = 1
)",
                        "smallest.toml");
}

/// One tower on a device whose work takes no time: what is left of a step is the host's.
void measure_host() {
    constexpr unsigned batch = 128, records = 50'000, repetitions = 9;
    constexpr std::uint64_t steps = 20'000;
    const Recipe recipe = smallest_recipe();
    const Dataset data({"pixels", {"one", "another"}, {1, 1, 1}}, std::vector<std::uint8_t>(records),
                       std::vector<std::uint32_t>(records));
    TrainerOptions options = test::options_for({"simulated"}, batch);
    options.open_device = [](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 0; });
    };
    LoopOptions loop{.steps = steps,
                     .save_every = 0,
                     .keep = 0,
                     .log_every = 10,
                     .origin = {recipe.name, 1, records, 0, "", recipe.checksum},
                     .global_batch = batch};
    Trainer trainer(recipe, options, data);
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("towers-host-reducer-{}", ::getpid());
    std::vector<double> us;
    for (unsigned i = 0; i < repetitions; ++i, loop.steps += steps) {
        RunDirectory run(folder / std::to_string(i), Existing::refuse);
        Metrics metrics(run, records);
        us.push_back(seconds_of([&] { train(trainer, run, loop, false, {&metrics}); }) / double(steps) * 1e6);
    }
    std::filesystem::remove_all(folder);
    const Spread spread = spread_of(us);
    fmt::print("one tower without work: {:.2f} us a step ({:.2f} - {:.2f})\n", spread.median, spread.min,
               spread.max);
}

/// What a bucket costs that has hardly any work: with as many threads as asked for, though none pays.
void measure_overhead(unsigned asked) {
    constexpr unsigned layers = 200, towers = 2, repetitions = 200;
    std::string text = "[input]\nshape = [1, 1, 1]\nclasses = 2\n[network]\nlayers = [\n";
    for (unsigned i = 0; i < layers; ++i)
        text += fmt::format("{{ name = \"d{}\", kind = \"dense\", units = 4 }},\n", i);
    text += "{ name = \"logits\", kind = \"dense\", units = 2 } ]\n"
            "[pipeline]\nvalues = \"normalized\"\nmean = [0.5]\ndeviation = [0.5]\n"
            "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.1\n[training]\nbatch = 2\nsteps = 1\n";
    const Recipe recipe = parse_recipe("deep", text, "deep.toml");
    const StateLayout layout = layout_of(recipe);
    const std::vector<ArenaRange> buckets =
        make_buckets(layout, {.least = slice_alignment, .most = slice_alignment});
    const std::unique_ptr<Device> memory = open_host_device({.threads = 1});
    std::vector<Buffer> gradients, parameters;
    std::vector<StagedByTower> staged;
    for (unsigned tower = 0; tower < towers; ++tower) {
        gradients.push_back(memory->allocate(layout.variable_bytes, Memory::staging));
        parameters.push_back(memory->allocate(layout.trained_bytes, Memory::staging));
        staged.push_back({gradients[tower].host<float>(), parameters[tower].host<float>()});
    }
    std::vector<double> us;
    for (const unsigned threads : {1u, asked}) {
        HostReducer reducer({.threads = threads}, Milestones::Spin::zero(),
                            {.layout = &layout, .optimizer = recipe.optimizer.get()}, staged, buckets);
        std::vector<double> each;
        for (unsigned i = 0; i < repetitions; ++i)
            each.push_back(seconds_of([&] {
                               reducer.begin({}, std::vector<std::size_t>{0, 1});
                               for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
                                   reducer.give(bucket + 1);
                               reducer.end({});
                           }) /
                           double(buckets.size()) * 1e6);
        us.push_back(median_of(each));
    }
    fmt::print("{} buckets without work: {:.2f} us each with {} threads, {:.2f} with one\n", buckets.size(),
               us[1], asked, us[0]);
}

/// Equal towers that compute nothing; a step of the tutorial takes each of them `seconds`.
void measure_rate(unsigned towers, double seconds, unsigned threads) {
    constexpr int warm_up = 20, steps = 200;
    constexpr unsigned share = 4;
    const Recipe recipe = find_recipe("cifar10-tutorial");
    TrainerOptions options = test::options_for(std::vector<std::string>(towers, "simulated"), share * towers);
    options.open.threads = threads;
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<test::SimulatedDevice>(
            std::string(id), test::seconds_by_work(recipe, share, seconds / 3, seconds * 2 / 3));
    };
    Trainer trainer(recipe, options, test::noise(200));
    for (int i = 0; i < warm_up; ++i) trainer.step();
    double host = 0;
    const double taken = seconds_of([&] {
        for (int i = 0; i < steps; ++i) host += trainer.step().host_seconds;
    });
    fmt::print("{} towers, steps of {:>2.0f} ms: {:>6.3f} ms, {:.3f} of the sum of their rates; host at work "
               "{:.3f} ms\n",
               towers, seconds * 1e3, taken / steps * 1e3, seconds * steps / taken, host / steps * 1e3);
    std::fflush(stdout);
}

/// Two towers with automatic shares, one of which is `slower` times as slow as the other; trials included.
void measure_unlike(double slower, unsigned threads) {
    constexpr int steps = 300;
    constexpr unsigned batch = 256;
    constexpr double fast = 40e-6; // seconds an example
    const Recipe recipe = find_recipe("cifar10-tutorial");
    TrainerOptions options = test::options_for({"fast", "slow"}, batch);
    options.shares.automatic = true;
    options.open.threads = threads;
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        const double seconds = batch * fast * (id == "slow" ? slower : 1);
        return std::make_unique<test::SimulatedDevice>(
            std::string(id), test::seconds_by_work(recipe, batch, seconds / 3, seconds * 2 / 3));
    };
    Trainer trainer(recipe, options, test::noise(200));
    const double taken = seconds_of([&] {
        for (int i = 0; i < steps; ++i) trainer.step();
    });
    const double rate = batch * steps / taken, alone = 1 / fast, sum = alone + alone / slower;
    fmt::print(
        "2 towers, one {:>2.0f} times as slow, at last {}: {:.3f} of the sum of their rates, {:.3f} of "
        "the fast one's\n",
        slower, to_string(trainer.shares()), rate / sum, rate / alone);
    std::fflush(stdout);
}

} // namespace
} // namespace towers

int main(int argc, char** argv) {
    towers::measure_host();
    if (argc > 1 && std::string_view(argv[1]) == "alone") return 0;
    const unsigned threads = towers::cpu_threads(argc > 1 ? unsigned(std::atoi(argv[1])) : 0);
    fmt::print("{} threads\n", threads);
    for (const unsigned asked : {2u, 16u}) towers::measure_overhead(asked);
    for (const char* recipe : {"cifar10-tutorial", "imagenet-resnet50"})
        towers::measure_bandwidth(recipe, threads);
    for (const unsigned count : {2u, 4u})
        for (const double seconds : {1e-3, 2e-3, 5e-3, 10e-3}) towers::measure_rate(count, seconds, threads);
    for (const double slower : {2.0, 5.0, 20.0, 60.0}) towers::measure_unlike(slower, threads);
}
