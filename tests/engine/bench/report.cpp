// Reports: medians, JSON and back, comparison with an earlier report; and the profile of kernels.
#include "engine/bench/compare.h"
#include "engine/bench/json.h"
#include "engine/bench/profile.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace towers {
namespace {

BenchReport example() {
    BenchReport report;
    report.towers_version = "1.2.3";
    report.date = "2026-11-21T15:04:05Z";
    report.machine = {"Processor <&\"\\", "System", "Kernel", 2, 1u << 30, 0.5};
    report.settings = {"cifar10-tutorial", 8, 3, 4, 1.5, {}, 2, true};
    DeviceFigures device;
    device.id = "vulkan:0";
    device.name = "A card";
    device.kind = "discrete GPU";
    device.steps = 4;
    device.examples_per_s = {100, 90, 110};
    device.kernels = {
        {"conv1 forward", "conv2d_forward", "quads 64x64, 3 parts", {5, 4, 6}, 0.75, 1e6, 2e3, 200.0, 0.4},
        {"results out", "copy", {}, {1, 1, 1}, 0.25, 0, 32, {}, 0.032}};
    device.kernels_us = Spread{6, 5, 7};
    device.copies = {{"to_device", 65536, {1, 1, 2}, {}}};
    report.devices = {device};
    report.averaging = {{2, 4096, {50, 40, 60}, {55, 50, 60}, {0.9, 0.8, 1.0}}};
    report.peak_memory_bytes = std::uint64_t(5) << 30;
    return report;
}

std::string refusal(const std::string& text) {
    return test::input_error([&] { report_from_json(text, "old.json"); });
}

} // namespace

TEST_CASE("medians and spreads") {
    CHECK(median_of({3}) == 3);
    CHECK(median_of({9, 1, 5}) == 5);
    CHECK(median_of({4, 1, 2, 9}) == 3);
    const Spread spread = spread_of({4, 1, 2, 9});
    CHECK(spread.median == 3);
    CHECK(spread.min == 1);
    CHECK(spread.max == 9);
    CHECK_THROWS_AS(spread_of({}), std::logic_error);
}

TEST_CASE("a report survives JSON") {
    BenchReport report = example();
    for (const bool together : {false, true}) {
        if (together) report.together = TogetherFigures{{"vulkan:0", "cpu"}, {12, 4}, 2, {}, {}, {}, {}, 99};
        const std::string json = to_json(report);
        const BenchReport read = report_from_json(json, "report.json");
        CHECK(to_json(read) == json);
        CHECK(read.machine.processor == report.machine.processor);
        CHECK(read.settings.steps == 4u);
        CHECK_FALSE(read.settings.warm_up.has_value());
        CHECK(read.devices[0].kernels[0].gflops == 200.0);
        CHECK_FALSE(read.devices[0].kernels[1].gflops.has_value());
        CHECK(read.peak_memory_bytes == report.peak_memory_bytes);
        CHECK(read.together.has_value() == together);
    }
    report.devices[0].name = "not UTF-8: \xff";
    CHECK(report_from_json(to_json(report), "report.json").devices[0].name == "not UTF-8: \xef\xbf\xbd");
}

TEST_CASE("what was left out survives JSON") {
    BenchReport report = example();
    CHECK_FALSE(report_from_json(to_json(report), "report.json").left_out.has_value());
    report.left_out = std::vector<LeftOut>{{.what = "cpu", .reason = "no memory"}};
    const auto read = report_from_json(to_json(report), "report.json").left_out;
    REQUIRE(read.has_value());
    CHECK(read->at(0).what == "cpu");
    CHECK(read->at(0).reason == "no memory");
}

TEST_CASE("a proposal survives JSON, and an older report without one is read") {
    BenchReport report = example();
    report.devices[0].load = LoadFigures{2, {30, 20, 40}, 10, 12};
    TogetherFigures together{{"vulkan:0", "cpu"}, {12, 4}, 2, {}, {}, {}, {}, 99};
    together.beyond_slowest_us = Spread{3, 2, 4};
    const SubsetFigures alone{{"cpu"}, {16}, 90, 1e3, 0.9, Spread{7, 6, 8}, Spread{}, Spread{}, {}};
    const SubsetFigures refused{{"vulkan:0"}, {16}, 80, 2e3, 0.8, {}, {}, {}, "no memory"};
    together.proposal = alone;
    together.subsets = {alone, refused};
    report.together = together;
    const std::string json = to_json(report);
    const BenchReport read = report_from_json(json, "report.json");
    CHECK(to_json(read) == json);
    CHECK(read.devices[0].load->per_example_us == 12);
    CHECK(read.together->proposal->examples_per_s->median == 7);
    REQUIRE(read.together->subsets->size() == 2);
    CHECK_FALSE((*read.together->subsets)[0].refusal.has_value());
    CHECK((*read.together->subsets)[1].refusal == "no memory");

    auto before = nlohmann::json::parse(json);
    for (const char* later : {"beyond_slowest_us", "proposal", "subsets"}) before["together"].erase(later);
    before["devices"][0].erase("load");
    const BenchReport old = report_from_json(before.dump(), "old.json");
    CHECK(old.together->split_limit_examples_per_s == 99);
    CHECK_FALSE(old.together->proposal.has_value());
    before["together"].erase("shares");
    CHECK(refusal(before.dump()).find("'together.shares'") != std::string::npos);
}

TEST_CASE("a file that is not a report is refused, with its name and the reason") {
    for (const char* text : {"", "{", "[]", "{}", "{\"schema\": \"1\"}", "\xff"}) {
        CAPTURE(text);
        CHECK(refusal(text).starts_with("old.json is not a report of 'towers bench'"));
    }
    CHECK(refusal("{\"schema\": 2}").starts_with("old.json has schema 2, but this program reads 1"));
    std::string json = to_json(example());
    const auto with = [&](const std::string& before, const std::string& after) {
        std::string changed = json;
        const std::size_t place = changed.find(before);
        REQUIRE(place != std::string::npos);
        return changed.replace(place, before.size(), after);
    };
    CHECK(refusal(with("\"batch\": 8", "\"batch\": -8")).find("'settings.batch'") != std::string::npos);
    CHECK(refusal(with("\"kernel\": \"copy\"", "\"kernel\": 3")).find("'devices[0].kernels[1].kernel'") !=
          std::string::npos);
    CHECK(refusal(with("\"examples_per_s\"", "\"examples\"")).find("'devices[0].examples_per_s'") !=
          std::string::npos);
}

TEST_CASE("a report is compared device by device, and only with a report on the same work") {
    const BenchReport before = example();
    BenchReport now = before;
    now.devices[0].examples_per_s.median = 89;
    now.devices[0].kernels[0].time_us.median = 10;
    const std::vector<DeviceInfo> devices = {{.id = "vulkan:0", .name = "A card"}};
    CHECK_NOTHROW(check_comparable(now.settings, devices, before, "old.json", false));
    const BenchComparison comparison = compare(now, before);
    REQUIRE(comparison.rates.size() == 1);
    CHECK(comparison.rates[0].ratio() == doctest::Approx(0.89));
    CHECK(comparison.slower(0.10).size() == 1);
    CHECK(comparison.slower(0.12).empty());
    REQUIRE(comparison.kernels.size() == 2);
    CHECK(comparison.kernels[0].now_us == 2 * comparison.kernels[0].before_us);

    const auto refuses = [&](const BenchSettings& settings, const std::vector<DeviceInfo>& measured) {
        return test::input_error([&] { check_comparable(settings, measured, before, "old.json", false); });
    };
    BenchSettings other = before.settings;
    other.batch = 16;
    CHECK(refuses(other, devices).starts_with("old.json is not comparable: its batch is 8, here it is 16"));
    other = before.settings;
    other.recipe = "another";
    CHECK(refuses(other, devices).find("its recipe is cifar10-tutorial") != std::string::npos);
    CHECK(refuses(before.settings, {{.id = "vulkan:0", .name = "Another card"}})
              .starts_with("old.json has no device in common"));
}

TEST_CASE("a profile has every operation of the step with a time, on every device") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(20);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const std::unique_ptr<Device> device = open_device(id, test::open_options());
        StepProfile profile(*device, recipe, data, 4);
        profile.repeat(1);
        profile.reset();
        profile.repeat(2);
        profile.repeat(3);
        DeviceFigures figures;
        profile.report(figures);
        CHECK(figures.device_memory_bytes > figures.staging_memory_bytes);
        if (figures.kernels.empty()) {
            MESSAGE("has no clock");
            continue;
        }
        std::set<std::string> names;
        double shares = 0;
        for (const KernelFigures& kernel : figures.kernels) {
            names.insert(kernel.name);
            shares += kernel.share;
            CHECK(kernel.time_us.min >= 0);
            CHECK(kernel.time_us.min <= kernel.time_us.median);
            CHECK(kernel.time_us.median <= kernel.time_us.max);
            CHECK(kernel.gflops.has_value() == kernel.kernel.starts_with("conv2d_"));
        }
        CHECK(names.contains("conv2 weights gradient"));
        CHECK(shares == doctest::Approx(1));
        CHECK(figures.kernels_us->median > 0);
    }
}

} // namespace towers
