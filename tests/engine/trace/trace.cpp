// Traces of steps on simulated devices with known times, and on real ones.
#include "engine/trace/trace.h"
#include "engine/recipes/recipe_plan.h"

#include "backends/files/file.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace towers {
namespace {

constexpr double ms = 1e3; // in a trace's microseconds

struct Slice {
    std::string name, kernel;
    double begin, end; ///< microseconds
    std::uint64_t step;
};

/// Reads a trace's file: slices by "process/track", in order of time.
using Tracks = std::map<std::string, std::vector<Slice>>;

Tracks read_trace(const std::filesystem::path& path) {
    const nlohmann::json trace = nlohmann::json::parse(read_file(path));
    std::map<std::pair<int, int>, std::string> tracks;
    std::map<int, std::string> processes;
    Tracks found;
    for (const nlohmann::json& event : trace.at("traceEvents")) {
        const int pid = event.at("pid"), tid = event.at("tid");
        CHECK(pid > 0);
        const nlohmann::json& args = event.at("args");
        if (event.at("name") == "process_name") processes[pid] = args.at("name");
        if (event.at("name") == "thread_name")
            tracks[{pid, tid}] = processes.at(pid) + "/" + std::string(args.at("name"));
        if (event.at("ph") != "X") continue;
        const double begin = event.at("ts"), seconds = event.at("dur");
        CHECK(begin >= 0);
        CHECK(seconds >= 0);
        found[tracks.at({pid, tid})].push_back(
            {event.at("name"), args.value("kernel", ""), begin, begin + seconds, args.at("step")});
    }
    for (auto& [name, slices] : found) std::ranges::stable_sort(slices, {}, &Slice::begin);
    return found;
}

/// Trains `steps` steps, of which the trace keeps `kept`, and reads the trace.
Tracks trace_of(const Recipe& recipe, TrainerOptions options, int steps, std::uint64_t kept) {
    const test::TemporaryFolder folder;
    options.trace = std::make_shared<Trace>(kept);
    {
        Trainer trainer(recipe, options, test::noise(100));
        for (int i = 0; i < steps; ++i) trainer.step();
    }
    options.trace->write(folder.path() / "trace.json");
    return read_trace(folder.path() / "trace.json");
}

double length(const std::vector<Slice>& slices) {
    double sum = 0;
    for (const Slice& each : slices) sum += each.end - each.begin;
    return sum;
}

std::vector<Slice> of_step(const std::vector<Slice>& slices, std::uint64_t step) {
    std::vector<Slice> found;
    std::ranges::copy_if(slices, std::back_inserter(found),
                         [&](const Slice& each) { return each.step == step; });
    return found;
}

std::vector<Slice> named(const std::vector<Slice>& slices, const std::string& begin) {
    std::vector<Slice> found;
    std::ranges::copy_if(slices, std::back_inserter(found),
                         [&](const Slice& each) { return each.name.starts_with(begin); });
    return found;
}

} // namespace

TEST_CASE("a clock's offset lies where no work begins before its submission or ends after it is known") {
    ClockOffset offset;
    CHECK(offset.seconds() == 0);
    offset.begins(0, 100, 7); // at least 93
    CHECK(offset.seconds() == 93);
    offset.ends(0, 8, 103); // at most 95
    CHECK(offset.seconds() == 94);
    CHECK(offset.uncertainty() == 1);
    offset.begins(2, 110, 16.5); // at least 93.5
    offset.begins(1, 110, 17);   // a weaker bound
    CHECK(offset.seconds() == 94.25);
    offset.forget_before(1);
    CHECK(offset.seconds() == 93.5);
    offset.ends(2, 20, 114);
    CHECK(offset.seconds() == 93.75);
}

TEST_CASE("clock bounds from steps that are not kept do not move the slices of those that are") {
    const test::TemporaryFolder folder;
    Trace trace(2);
    const Trace::Track track = trace.add_track("tower", "compute"), host = trace.add_track("host", "steps");
    const Trace::ClockId clock = trace.add_clock("tower");
    trace.begin_step(100);
    trace.begins(clock, 100, 50, 10); // 40 s apart
    trace.ends(clock, 100, 11, 51);
    trace.begins(clock, 3, 20, 10); // read late, of a clock that drifts
    trace.ends(clock, 3, 15, 20);
    trace.begins(clock, Trace::none, 90, 10);
    trace.add({.track = host, .name = "step 100", .step = 100, .begin = 50, .end = 52});
    trace.add({.track = track, .name = "kernel", .step = 100, .clock = clock, .begin = 10.5, .end = 11});
    trace.add({.track = track, .name = "old", .step = 98, .clock = clock, .begin = 10.5, .end = 11});
    trace.write(folder / "trace.json");
    const Tracks tracks = read_trace(folder / "trace.json");
    REQUIRE(tracks.at("tower/compute").size() == 1);
    CHECK(tracks.at("tower/compute")[0].begin == 0.5e6);
    CHECK(tracks.at("host/steps")[0].begin == 0);
}

TEST_CASE("a trace shows what simulated towers do, when, and side by side") {
    constexpr unsigned share = 4, steps = 8, kept = 3;
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const double bytes = double(layout_of(recipe).trained_bytes);
    TrainerOptions options = test::options_for({"one", "two"}, 2 * share);
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        const double slower = id == "two" ? 2 : 1;
        return std::make_unique<test::SimulatedDevice>(
            std::string(id), test::seconds_by_work(recipe, share, slower * 10e-3, slower * 20e-3),
            test::Link{16e-3 / bytes});
    };
    const Tracks tracks = trace_of(recipe, options, steps, kept);
    const std::vector<Slice>& host = tracks.at("host/steps");
    const std::vector<Slice> taken = named(host, "step ");
    REQUIRE(taken.size() == kept);
    CHECK(taken[0].name == "step 5");
    CHECK(taken[2].name == "step 7");
    for (const std::string tower : {"tower_0: one (simulated)", "tower_1: two (simulated)"}) {
        CAPTURE(tower);
        const double slower = tower.starts_with("tower_1") ? 2 : 1;
        const auto& compute = tracks.at(tower + "/compute");
        const auto& upload = tracks.at(tower + "/upload");
        const auto& download = tracks.at(tower + "/download");
        // The device's clock starts with the device, so kernels lie in their steps only if the clocks are
        // aligned.
        for (const Slice& kernel : compute) {
            const Slice& step = taken.at(kernel.step - 5);
            CHECK(kernel.begin >= step.begin - 0.5 * ms);
            CHECK(kernel.end <= step.end + 0.5 * ms);
        }
        CHECK(std::ranges::count(compute, "conv2 forward", &Slice::name) == kept);
        CHECK(std::ranges::count(compute, "", &Slice::kernel) == 2 * kept); // copies: numbers in, results out
        CHECK(length(compute) == doctest::Approx(kept * slower * 30 * ms).epsilon(0.01));
        CHECK(length(upload) == doctest::Approx(kept * 16 * ms).epsilon(0.01));
        CHECK(length(download) == doctest::Approx(kept * 16 * ms).epsilon(0.01));
        CHECK(named(upload, "parameters ").size() == upload.size());
        CHECK(named(download, "gradients ").size() == download.size());
        for (const Slice& step : taken) { // a bucket leaves before the kernels of the others have ended
            const double first = of_step(download, step.step).front().end;
            CHECK(first < of_step(compute, step.step).back().end);
        }
        // A tower's thread only waits, for one thing after another.
        const auto& thread = tracks.at(tower + "/thread");
        for (std::size_t i = 1; i < thread.size(); ++i) CHECK(thread[i].begin >= thread[i - 1].end - 0.002);
        for (const char* what : {"submit", "wait for parameters", "wait for kernels", "wait for gradients"})
            CHECK(named(thread, what).size() >= kept);
    }
    // The tower that has ended first, the faster one on a quiet machine, waits for the other's end.
    for (const Slice& step : taken) {
        std::vector<Slice> others, last, own;
        for (const std::string tower : {"tower_0: one (simulated)", "tower_1: two (simulated)"}) {
            const std::vector<Slice> thread = of_step(tracks.at(tower + "/thread"), step.step);
            std::ranges::copy(named(thread, "wait for others"), std::back_inserter(others));
            std::ranges::copy(named(thread, "wait for the host"), std::back_inserter(last));
            own.push_back(named(thread, "wait for gradients").back());
        }
        REQUIRE(others.size() == 1);
        REQUIRE(last.size() == 2);
        CHECK(others[0].begin >= std::min(own[0].end, own[1].end) - 0.002);
        CHECK(others[0].end >= std::max(own[0].end, own[1].end) - 0.002);
        for (const Slice& each : last) CHECK(std::abs(each.begin - others[0].end) <= 0.002);
    }
    // Each bucket is averaged after both towers have delivered it.
    const std::vector<Slice> averaged = named(host, "average bucket ");
    CHECK(averaged.size() == tracks.at("tower_0: one (simulated)/download").size());
    for (const Slice& average : averaged)
        for (const std::string tower : {"tower_0: one (simulated)", "tower_1: two (simulated)"})
            for (const Slice& gradients : tracks.at(tower + "/download"))
                if (gradients.step == average.step &&
                    gradients.name == "gradients " + average.name.substr(15))
                    CHECK(gradients.end <= average.begin + 0.5 * ms);
}

TEST_CASE("a trace holds every kernel and copy of real devices' steps, in order and in time") {
    const Recipe recipe = test::small_recipe();
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        for (const unsigned micro_batch : {0u, 3u}) {
            TrainerOptions options = test::options_for({id, "cpu"}, 12);
            options.open.threads = 1;
            options.micro_batch = micro_batch;
            const Tracks tracks = trace_of(recipe, options, 4, 2);
            const std::vector<Slice> taken = named(tracks.at("host/steps"), "step ");
            REQUIRE(taken.size() == 2);
            std::set<std::string> towers;
            for (const auto& track : tracks) {
                const std::string& name = track.first;
                const std::vector<Slice>& slices = track.second;
                CAPTURE(name);
                if (name.starts_with("host/")) continue;
                towers.insert(name.substr(0, 7));
                for (std::size_t i = 0; i < slices.size(); ++i) {
                    const Slice& step = taken.at(slices[i].step - 2);
                    CHECK(slices[i].begin >= step.begin - 1 * ms);
                    // Parameters may still be uploading when a step has ended.
                    if (!name.ends_with("upload")) CHECK(slices[i].end <= step.end + 1 * ms);
                    if (i > 0) CHECK(slices[i].begin >= slices[i - 1].end - 0.002);
                }
                if (!name.ends_with("/compute")) continue;
                CHECK(std::ranges::count(slices, "conv2 forward", &Slice::name) ==
                      (micro_batch == 0 ? 2 : 2 * 2));
                CHECK(std::ranges::count(slices, "conv2d_forward", &Slice::kernel) >= 4);
            }
            CHECK(towers == std::set<std::string>{"tower_0", "tower_1"});
        }
    }
}

TEST_CASE("a tower without a share has a row that says so") {
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 8);
    options.open.threads = 1;
    options.shares.recorded = {{0, {8, 0}}};
    const Tracks tracks = trace_of(test::small_recipe(), options, 3, 2);
    bool found = false;
    for (const auto& [name, slices] : tracks)
        if (name.starts_with("tower_1") && name.ends_with("/thread")) {
            found = true;
            CHECK(named(slices, "no share").size() == 2);
            CHECK(slices.size() == 2);
        }
    CHECK(found);
}

TEST_CASE("the work of devices is added up by name over the kept steps, without test passes") {
    constexpr unsigned share = 4, kept = 3;
    const Recipe recipe = find_recipe("cifar10-tutorial");
    const Dataset data = test::noise(100);
    for (const bool tests : {false, true}) {
        CAPTURE(tests);
        const test::VirtualClock clock;
        TrainerOptions options = test::options_for({"one"}, share);
        options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
            return std::make_unique<test::SimulatedDevice>(
                std::string(id), test::seconds_by_work(recipe, share, 10e-3, 20e-3));
        };
        options.trace = std::make_shared<Trace>(kept);
        {
            Trainer trainer(recipe, options, data, tests ? test::borrowed(data) : nullptr);
            for (int i = 0; i < 5; ++i) {
                trainer.step();
                if (tests) trainer.test(true);
            }
        }
        double sum = 0;
        std::set<std::string> names;
        for (const Trace::DeviceWork& each : options.trace->device_work()) {
            CHECK(each.process.starts_with("tower_0: one"));
            CHECK(names.insert(each.row + each.name + (each.kernel != nullptr ? each.kernel : "")).second);
            if (each.kernel != nullptr) sum += each.seconds;
        }
        CHECK(names.contains("computeconv1 forwardconv2d_forward"));
        CHECK(sum == doctest::Approx(kept * 30e-3));
    }
}

TEST_CASE("training is the same to the bit with a trace and without") {
    const Recipe recipe = test::small_recipe();
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        for (const std::vector<std::string>& towers : {std::vector{id}, {id, "cpu"}}) {
            TrainerOptions options = test::options_for(towers, 8);
            options.open.threads = 1;
            std::vector<std::vector<float>> states;
            for (const bool traced : {false, true}) {
                options.trace = traced ? std::make_shared<Trace>(2) : nullptr;
                Trainer trainer(recipe, options, test::noise(100));
                for (int i = 0; i < 5; ++i) trainer.step();
                states.push_back(trainer.save().state);
            }
            CHECK(states[0] == states[1]);
        }
    }
}

TEST_CASE("what another process's trace keeps is placed by the offset of its clock") {
    const auto moment = [](double seconds) {
        return Clock::time_point(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
    };
    Trace own(2), its(9);
    own.begin_step(3);
    own.add(own.add_track("host", "steps"), "step 3", moment(10), moment(11));
    own.begin_step(4);
    const Trace::Track steps = its.add_track("host of rank 1", "steps");
    const Trace::Track compute = its.add_track("tower_1", "compute");
    const Trace::ClockId device = its.add_clock("tower_1");
    its.begin_step(2);
    its.add(steps, "dropped", moment(109), moment(110));
    its.begin_step(3);
    its.add(steps, "step 3", moment(110.25), moment(110.75));
    its.begins(device, 3, 100, 5); // 95 to 96 s before the host's
    its.ends(device, 3, 5, 101);
    its.add({.track = compute,
             .name = "conv",
             .kernel = "conv2d",
             .step = 3,
             .clock = device,
             .begin = 15,
             .end = 15.125});
    its.note("a note");
    ClockOffset clock; // 100 s, within 1 ms
    clock.begins(0, 10, 110.001);
    clock.ends(0, 110.001, 10.002);
    clock.begins(0, 10, 110.01); // a slow answer
    clock.ends(0, 110.01, 10.03);
    own.add(its.to_json(), clock);
    CHECK(own.notes() == std::vector<std::string>{"a note"});

    const test::TemporaryFolder folder;
    own.write(folder.path() / "trace.json");
    const Tracks tracks = read_trace(folder.path() / "trace.json");
    CHECK(tracks.size() == 3);
    CHECK(tracks.at("host/steps").at(0).begin == 0);
    const std::vector<Slice>& host = tracks.at("host of rank 1/steps");
    REQUIRE(host.size() == 1);
    CHECK(host[0].begin == doctest::Approx(250 * ms));
    CHECK(host[0].end == doctest::Approx(750 * ms));
    const std::vector<Slice>& kernels = tracks.at("tower_1/compute");
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].kernel == "conv2d");
    CHECK(kernels[0].step == 3);
    CHECK(kernels[0].begin == doctest::Approx(500 * ms));
    CHECK(kernels[0].end == doctest::Approx(625 * ms));
    const std::string text = read_file(folder.path() / "trace.json");
    CHECK(text.find("rank's clock within 1000 us") != std::string::npos);
    CHECK(text.find("device's clock within 501000 us") != std::string::npos);
}

} // namespace towers
