// bench: the report on the terminal, as JSON, as a page, and compared with an earlier one.
#include "tests/apps/helpers.h"
#include "tests/apps/json_schema.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <set>
#include <sstream>

using namespace towers::test;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

/// `towers bench` with as little work as possible; `repetitions` is 1 where the spread does not matter.
Arguments bench(const Arguments& flags, const char* repetitions = "1") {
    return Arguments{"bench", "--batch",   "8", "--repetitions", repetitions, "--steps",
                     "1",     "--warm-up", "1"} +
           flags;
}

void check_spread(const Json& figure, double least) {
    CHECK(figure.at("min") >= least);
    CHECK(figure.at("median") >= figure.at("min"));
    CHECK(figure.at("max") >= figure.at("median"));
}

void check_device(const Json& device) {
    CAPTURE(device.at("id").get<std::string>());
    CHECK(device.at("steps") == 1);
    for (const char* figure : {"examples_per_s", "step_us", "host_us", "empty_step_us"}) {
        CAPTURE(figure);
        check_spread(device.at(figure), 1e-9);
    }
    CHECK(device.at("host_us").at("median") < device.at("step_us").at("median"));
    CHECK(device.at("device_memory_bytes") > 10e6);
    CHECK(device.at("copies").size() == 6);
    double flops = 0, share = 0;
    for (const Json& kernel : device.at("kernels")) {
        flops += double(kernel.at("flops"));
        share += double(kernel.at("share"));
    }
    if (device.at("kernels").empty()) return; // no clock
    CHECK(flops / 8 == doctest::Approx(105.3e6).epsilon(0.001));
    CHECK(share == doctest::Approx(1));
}

/// The figures for 16 examples.
void check_subset(const Json& subset) {
    CAPTURE(subset.at("towers").dump());
    unsigned sum = 0;
    for (const unsigned share : subset.at("shares")) sum += share;
    CHECK(sum == 16);
    CHECK(subset.at("shares").size() == subset.at("towers").size());
    CHECK(double(subset.at("predicted_step_us")) * double(subset.at("predicted_examples_per_s")) ==
          doctest::Approx(16e6));
    for (const char* figure : {"examples_per_s", "step_us", "share_of_sum"})
        check_spread(subset.at(figure), 1e-9);
}

} // namespace

TEST_CASE("bench measures every device alone and together, as text, JSON and a page") {
    const TemporaryFolder folder;
    const std::string device = quick_device();
    const std::string towers = device.empty() ? "cpu,cpu" : "cpu," + device;
    const std::string json = (folder / "report.json").string(), html = (folder / "report.html").string();
    const Outcome outcome = run_towers(bench({"--towers", towers, "--together", "--subsets", "--shares",
                                              "5:3", "--json", json, "--html", html, "--validate"},
                                             "2"));
    check_worked(outcome);
    for (const char* part :
         {"whole step", "together", "conv2 weights gradient", "GFLOP/s", "copies", "host averaging",
          "peak memory", "to train so: --towers ", "measured. Fastest: "}) {
        CAPTURE(part);
        CHECK(contains(outcome.out, part));
    }
    CHECK_FALSE(contains(outcome.out, "\r")); // no live line without a terminal

    CHECK(schema_errors("bench.schema.json", json) == "");
    const Json report = Json::parse(read_text(json));
    CHECK(report.at("schema") == 1);
    CHECK(report.at("settings").at("batch") == 8);
    CHECK(report.at("devices").size() == (device.empty() ? 1 : 2));
    for (const Json& each : report.at("devices")) check_device(each);
    CHECK(report.at("together").at("shares") == Json({10, 6}));
    check_spread(report.at("together").at("share_of_sum"), 0.001);
    check_subset(report.at("together").at("proposal"));
    const Json& subsets = report.at("together").at("subsets");
    CHECK(subsets.size() == (device.empty() ? 2 : 3));
    for (const Json& each : subsets) check_subset(each);
    for (std::size_t i = 1; i < subsets.size(); ++i)
        CHECK(subsets[i - 1].at("examples_per_s").at("median") >=
              subsets[i].at("examples_per_s").at("median"));
    for (const Json& each : report.at("devices")) CHECK(each.at("load").at("batch") == 2);
    CHECK(report.at("averaging").size() == 3);
    for (const Json& each : report.at("averaging")) check_spread(each.at("ratio"), 1e-9);
    CHECK(report.at("peak_memory_bytes") > 50e6);

    const std::string page = read_text(html);
    const std::string begin = "<script type=\"application/json\" id=\"report\">";
    const std::size_t data = page.find(begin) + begin.size();
    CHECK(Json::parse(page.substr(data, page.find("</script>", data) - data)) == report);
    const std::string parts = "const partOfKernel = ";
    const std::size_t table = page.find(parts) + parts.size();
    const Json part_of = Json::parse(page.substr(table, page.find(";\n", table) - table));
    CHECK(part_of.at("conv2d_backward_data") == "data");
    for (const auto& [kernel, part] : part_of.items()) {
        CAPTURE(kernel);
        CHECK(contains(page, "', '" + part.get<std::string>() + "'],\n")); // the page names it
        CHECK(contains(page, "--" + part.get<std::string>() + ":"));       // and has its colour
    }
    for (const Json& ran : report.at("devices"))
        for (const Json& each : ran.at("kernels"))
            CHECK((each.at("kernel") == "copy" || part_of.contains(each.at("kernel"))));
    CHECK(page.starts_with("<!DOCTYPE html>"));
    CHECK(page.ends_with("</html>\n"));
    for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "import(", "fetch(", "{{"}) {
        CAPTURE(reference);
        CHECK_FALSE(contains(page, reference)); // it is one file and needs no network
    }
}

TEST_CASE("the command that bench proposes works") {
    const TemporaryFolder folder;
    const Outcome outcome =
        run_towers(bench({"--towers", "cpu,cpu", "--threads", "1", "--together", "--shares", "even", "--json",
                          (folder / "report.json").string()}),
                   {.environment = {{"OMP_NUM_THREADS", "2"}}}); // the default, so not in the command
    check_worked(outcome);
    CHECK(schema_errors("bench.schema.json", folder / "report.json") == "");
    CHECK_FALSE(contains(outcome.out, "Fastest"));
    CHECK(contains(outcome.out, "cpu,cpu with 8:8 examples: "));
    CHECK(contains(outcome.out, " % of the sum of the devices' solo rates at batch 8; "));
    const Json proposal = Json::parse(read_text(folder / "report.json")).at("together").at("proposal");
    const std::string begin = "to train so: ";
    const std::size_t at = outcome.out.find(begin) + begin.size();
    std::istringstream words(outcome.out.substr(at, outcome.out.find(';', at) - at));
    Arguments flags{"--steps", "1"};
    for (std::string word; words >> word;) flags.push_back(word);
    const std::string out = train(folder / "run", flags);
    CHECK(contains(read_text(folder / "run" / "config.toml"), "threads = 1\n"));
    const Json& shares = proposal.at("shares");
    for (std::size_t i = 0; i < shares.size(); ++i) {
        CHECK(contains(out, "tower_" + std::to_string(i) + ": cpu ("));
        CHECK(contains(out, "), " + shares[i].dump() + " examples a step"));
    }
}

TEST_CASE("by default bench measures what training would use, and the CPU") {
    const Outcome outcome =
        run_towers({"bench", "--batch", "2", "--repetitions", "1", "--seconds", "0.01", "--threads", "1"});
    check_worked(outcome);
    CHECK(contains(outcome.out, "\ncpu "));
    CHECK(contains(outcome.out, "batch 2, repetitions in turn: 1, CPU threads: 1"));
}

TEST_CASE("--baseline finds what became slower") {
    const TemporaryFolder folder;
    const std::string first = (folder / "first.json").string();
    check_worked(run_towers(bench({"--towers", "cpu", "--threads", "1", "--json", first})));
    Json report = Json::parse(read_text(first));
    const auto with_rate = [&](double factor) {
        Json changed = report;
        Json& rate = changed["devices"][0]["examples_per_s"];
        rate["median"] = double(rate["median"]) * factor;
        const std::string path = (folder / "changed.json").string();
        write_text(path, changed.dump());
        return path;
    };
    const auto against = [&](const std::string& path, const Arguments& flags = {}) {
        return run_towers(bench({"--towers", "cpu", "--threads", "1", "--baseline", path}) + flags);
    };
    const Outcome faster = against(with_rate(1e-6));
    check_worked(faster);
    CHECK(contains(faster.out, "cpu examples/s"));
    CHECK(contains(faster.out, "cpu conv2 forward"));
    const Outcome slower = against(with_rate(1e6), {"--tolerance", "0.5"});
    check_failed(slower, 1, "slower than " + (folder / "changed.json").string());
    CHECK(contains(slower.err, "cpu at "));
    CHECK(contains(slower.out, "cpu examples/s")); // it still prints the report
    check_worked(against(with_rate(10), {"--tolerance", "0.9999"}));

    // bench refuses what is not comparable before it measures anything.
    check_failed(
        run_towers({"bench", "--towers", "cpu", "--threads", "1", "--batch", "4", "--baseline", first}), 1,
        "its batch is 8, here it is 4");
    check_failed(against((folder / "missing.json").string()), 1, "missing.json");
    write_text(folder / "other.json", "{\"loss\": 3}");
    check_failed(against((folder / "other.json").string()), 1, "is not a report of 'towers bench'");
    Json later = report;
    later["schema"] = 2;
    write_text(folder / "later.json", later.dump());
    check_failed(against((folder / "later.json").string()), 1, "has schema 2");
    // A missing device is a failure, unless the user names the devices to compare.
    Json more = report;
    more["devices"].push_back(report["devices"][0]);
    more["devices"][1]["id"] = "cuda:9";
    const std::string gone = (folder / "gone.json").string();
    write_text(gone, more.dump());
    check_failed(run_towers(bench({"--threads", "1", "--baseline", gone})), 1, "has cuda:9");
    CHECK(contains(against(gone, {"--tolerance", "0.9999"}).out, "only the earlier report has them: cuda:9"));
    check_failed(against(with_rate(0)), 1, "rate of cpu is not above 0");
    Json elsewhere = report;
    elsewhere["devices"][0]["name"] = "another processor";
    write_text(folder / "elsewhere.json", elsewhere.dump());
    check_failed(against((folder / "elsewhere.json").string()), 1, "no device in common");
}

TEST_CASE("bench says what is wrong with its command line") {
    const std::vector<std::pair<Arguments, std::string>> wrong = {
        {{"--batch", "0"}, "--batch '0'"},
        {{"--batch", "2000000"}, "--batch 2000000"},
        {{"--repetitions", "0"}, "--repetitions '0'"},
        {{"--steps", "0"}, "--steps '0'"},
        {{"--seconds", "-1"}, "--seconds -1"},
        {{"--seconds", "nan"}, "--seconds nan"},
        {{"--warm-up", "0"}, "--warm-up '0'"},
        {{"--threads", "5000"}, "--threads 5000"},
        {{"--baseline", "b.json", "--tolerance", "1"}, "--tolerance 1"},
        {{"--baseline", "b.json", "--tolerance", "-0.1"}, "--tolerance -0.1"},
        {{"--tolerance", "0.2"}, "--tolerance: give --baseline"},
        {{"--steps", "2", "--seconds", "0.1"}, "--seconds"},
        {{"--baseline", "b.json", "--json", "b.json"}, "--json and --baseline"},
        {{"--json", "b.json", "--html", "./b.json"}, "--json and --html both name b.json"},
        {{"--json", "b.json", "--html", "none/../b.json"}, "--json and --html both name b.json"},
        {{"--towers", ""}, "--towers: its value is empty"},
        {{"--baseline", ""}, "--baseline: its value is empty"},
        {{"--recipe", "none"}, "recipe 'none'"},
        {{"--towers", "cuda:99"}, "cuda:99"},
        {{"--towers", "cpu", "--backend", "cpu"}, "--towers and --backend"},
        {{"--towers", "cpu", "--together"}, "--together"},
        {{"--towers", "cpu,cpu", "--shares", "1:1"}, "--shares"},
        {{"--towers", "cpu,cpu", "--together", "--shares", "1:1:1"}, "3 shares for 2 towers"},
        {{"--towers", "cpu,cpu", "--together", "--shares", "auto"},
         "--shares 'auto': give even, or a ratio such as 3:1; bench has no auto"},
        {{"--towers", "cpu,cpu", "--subsets"}, "--subsets"},
        {{"--towers", "cpu,cpu,cpu,cpu,cpu,cpu", "--together", "--subsets"}, "--subsets: 6 towers"},
    };
    for (const auto& [flags, word] : wrong) {
        const auto& name = word; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(name);
        check_failed(run_towers(Arguments{"bench"} + flags), 2, name);
    }
    check_failed(run_towers({"bench", "--towers", "cpu", "--json", "/nonexistent/report.json"}), 1,
                 "/nonexistent");
    check_failed(run_towers({"bench", "--towers", "cpu", "--html", "/nonexistent/report.html"}), 1,
                 "/nonexistent");
}
