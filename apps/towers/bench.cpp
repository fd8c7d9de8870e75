#include "engine/bench/bench.h"
#include "apps/towers/bench_page.h"
#include "apps/towers/bench_table.h"
#include "apps/towers/bench_variants.h"
#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/flags.h"
#include "apps/towers/progress.h"
#include "apps/towers/ranks.h"
#include "apps/towers/start_over.h"
#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/bench/json.h"
#include "engine/bench/machine.h"
#include "engine/bench/ranks_bench.h"
#include "engine/files/output.h"
#include "engine/ranks/launcher.h"
#include "engine/recipes/recipe.h"
#include "engine/recipes/recipes.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <optional>

namespace towers {
namespace {

constexpr unsigned most_in_subsets = 5; // towers

struct BenchFlags {
    std::string backend, towers, shares, json, html, baseline, variants;
    std::vector<std::string> set;
    bool together = false, subsets = false;
    double tolerance = 0.1;
    BenchSettings settings{.recipe = "cifar10-tutorial", .batch = 128, .repetitions = 5, .seconds = 1};
    PrecisionFlags products;
    OpenOptions open;
};

void check(const BenchFlags& flags) {
    const auto complain = [](const std::string& what) { throw UsageError(what); };
    const BenchSettings& s = flags.settings;
    global_batch(s.batch, 1); // throws if that is too large
    if (s.repetitions > 1000) complain(fmt::format("--repetitions {}: give at most 1000", s.repetitions));
    if (!(s.seconds > 0 && s.seconds <= 3600))
        complain(fmt::format("--seconds {}: give a number above 0, at most 3600", s.seconds));
    check_threads(s.threads);
    if (!(flags.tolerance >= 0 && flags.tolerance < 1))
        complain(fmt::format("--tolerance {}: give a fraction of at least 0 and below 1", flags.tolerance));
    const std::pair<const char*, const std::string*> files[] = {
        {"--json", &flags.json}, {"--html", &flags.html}, {"--baseline", &flags.baseline}};
    const auto place = [](const std::string& path) { // the same file however its path is written
        std::error_code error;
        const std::filesystem::path found =
            std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
        return error ? std::filesystem::path(path) : found;
    };
    for (const auto& [one, path] : files)
        for (const auto& [other, same] : files)
            if (one != other && !path->empty() && !same->empty() &&
                (place(*path) == place(*same) || (is_standard_output(*path) && is_standard_output(*same))))
                complain(fmt::format("{} and {} both name {}; give two different files", one, other, *path));
    if (!flags.shares.empty() && !flags.together)
        complain("--shares is only for the run of all towers; give --together too");
    if (!flags.variants.empty() &&
        (flags.together || !flags.json.empty() || !flags.html.empty() || !flags.baseline.empty()))
        complain("--variants prints a table and measures nothing else; leave out --together, --json, --html "
                 "and --baseline");
    if (flags.subsets && !flags.together)
        complain("--subsets is about the run of all towers; give --together too");
}

/// The devices that training would use and, for comparison, the CPU.
std::vector<std::string> devices_to_measure(const BenchFlags& flags, const OpenOptions& open) {
    std::vector<std::string> towers = choose_towers(flags.backend, flags.towers, open);
    if (flags.backend.empty() && flags.towers.empty() && towers.back() != "cpu") towers.push_back("cpu");
    return towers;
}

/// The devices with these ids; does not open them.
std::vector<DeviceInfo> describe(const std::vector<std::string>& ids, const OpenOptions& options) {
    std::vector<DeviceInfo> devices;
    for (const Backend::Listing& listing : list_devices(options))
        for (const DeviceInfo& device : listing.devices)
            if (std::find(ids.begin(), ids.end(), device.id) != ids.end()) devices.push_back(device);
    return devices;
}

/// Throws if something is slower than before.
void judge(const BenchReport& report, const BenchReport& before, const BenchFlags& flags, std::FILE* text) {
    const BenchComparison comparison = compare(report, before);
    fmt::print(text, "{}", format_comparison(comparison, flags.baseline));
    std::string slower;
    for (const RateComparison& rate : comparison.slower(flags.tolerance))
        slower +=
            fmt::format("{}{} at {:.1f} % of it", slower.empty() ? "" : ", ", rate.what, rate.ratio() * 100);
    if (slower.empty()) return;
    std::fflush(stdout);
    throw InputError(fmt::format("slower than {} by more than --tolerance {}: {}", flags.baseline,
                                 flags.tolerance, slower));
}

/// The shares of so many towers in the run of all.
std::vector<double> shares_of(const BenchFlags& flags, std::size_t towers) {
    std::vector<double> shares;
    if (!flags.shares.empty())
        shares = parse_shares(
            flags.shares, "even, or a ratio such as 3:1; bench has no auto, because it measures one split");
    share_out(global_batch(flags.settings.batch, towers), unsigned(towers),
              shares); // throws if they do not fit
    return shares;
}

/// What to measure, but for the towers.
BenchOptions measurement_of(const BenchFlags& flags) {
    BenchOptions options{.towers = {},
                         .together = flags.together,
                         .subsets = flags.subsets,
                         .shares = {},
                         .settings = flags.settings,
                         .set = flags.set,
                         .open = flags.open,
                         .progress = show_progress};
    options.settings.threads = options.open.threads = cpu_threads(flags.settings.threads);
    options.settings.validate = flags.open.validate;
    const Recipe recipe = recipe_with(flags.settings.recipe, flags.set);
    choose_precision(options.open, flags.products, {}, recipe);
    options.settings.precision = name_of(options.open.precision);
    options.settings.round_operands = options.open.round_operands;
    return options;
}

/// Decides what to measure. Refuses what can be refused before anything is opened.
BenchOptions options_of(const BenchFlags& flags) {
    check(flags);
    BenchOptions options = measurement_of(flags);
    options.towers = devices_to_measure(flags, options.open);
    if (!flags.together) return options;

    const std::size_t count = options.towers.size();
    if (count < 2) throw UsageError("--together: name at least two towers with --towers");
    if (flags.subsets && count > most_in_subsets)
        throw UsageError(fmt::format("--subsets: {} towers have too many subsets; name at most {} with "
                                     "--towers",
                                     count, most_in_subsets));
    options.shares = shares_of(flags, count);
    return options;
}

/// The report that --baseline names, if it does. Throws when it measures something else.
std::optional<BenchReport> read_baseline(const BenchFlags& flags, const BenchOptions& options) {
    if (flags.baseline.empty()) return std::nullopt;
    BenchReport before = report_from_json(read_file(flags.baseline), flags.baseline);
    BenchSettings settings = options.settings;
    settings.recipe = with_changes(settings.recipe, flags.set);
    check_comparable(settings, describe(options.towers, options.open), before, flags.baseline,
                     flags.backend.empty() && flags.towers.empty());
    return before;
}

/// Throws when something could not be measured or is slower than before.
void tell(const BenchReport& report, const std::optional<BenchReport>& before, const BenchFlags& flags) {
    std::FILE* const text = text_stream({flags.json, flags.html});
    fmt::print(text, "{}", format_report(report));
    const std::string json = to_json(report);
    if (!flags.json.empty()) write_output(flags.json, json);
    if (!flags.html.empty()) write_output(flags.html, bench_page(json));
    if (before) judge(report, *before, flags, text);
    if (!report.left_out) return;
    std::fflush(stdout);
    std::vector<std::string> names;
    for (const LeftOut& each : *report.left_out) names.push_back(each.what);
    throw DeviceError(fmt::format("could not measure {}; the report says why", fmt::join(names, ", ")));
}

/// Refuses what several ranks do not measure.
void check_for_ranks(const BenchFlags& flags) {
    if (!flags.together)
        throw UsageError(
            "a launcher has started several ranks; give --together, which measures the run of all");
    if (flags.subsets || !flags.html.empty() || !flags.baseline.empty())
        throw UsageError(
            "--subsets, --html and --baseline are of one process; leave them out, or start bench "
            "without the launcher");
}

/// What this rank measures.
BenchOptions options_for(const BenchFlags& flags, const Ranks& ranks) {
    check(flags);
    check_for_ranks(flags);
    BenchOptions options = measurement_of(flags);
    options.settings.threads = options.open.threads = cpu_threads(ranks.threads_for(flags.settings.threads));
    options.towers = ranks.own_towers(flags.backend, flags.towers, options.open);
    return options;
}

/// `lines`: see common_lines().
int lead(const BenchFlags& flags, const std::vector<std::string>& lines, Ranks& ranks) {
    BenchOptions options = options_for(flags, ranks);
    if (!flags.json.empty()) check_output(flags.json);
    const std::vector<std::string> towers = ranks.gather_towers(options.towers, lines);
    options.shares = shares_of(flags, towers.size());
    ranks.tell({{"towers", towers}, {"shares", options.shares}});
    std::optional<RanksReport> report = bench_ranks(options, ranks.world(), ranks.towers(), towers);
    report->towers_version = TOWERS_VERSION;
    report->launcher = launched()->launcher;
    show_progress("");
    fmt::print(text_stream({flags.json}), "{}", format_report(*report));
    if (!flags.json.empty()) write_output(flags.json, to_json(*report));
    return 0;
}

void follow(const BenchFlags& flags, const std::vector<std::string>& lines, Ranks& ranks) {
    BenchOptions options = options_for(flags, ranks);
    options.progress = {};
    ranks.tell_towers(options.towers, lines);
    const nlohmann::json told = ranks.receive();
    const std::vector<std::string> towers = told["towers"];
    options.shares = told["shares"].get<std::vector<double>>();
    bench_ranks(options, ranks.world(), ranks.towers(), towers);
    ranks.receive();
}

int run(const BenchFlags& flags) {
    const BenchOptions options = options_of(flags);
    if (!flags.variants.empty()) {
        bench_variants(options, flags.variants);
        return 0;
    }
    for (const std::string& path : {flags.json, flags.html})
        if (!path.empty()) check_output(path);
    const std::optional<BenchReport> before = read_baseline(flags, options);
    BenchReport report = run_bench(options);
    work_begins();
    report.towers_version = TOWERS_VERSION;
    show_progress("");
    tell(report, before, flags);
    return 0;
}

} // namespace

void add_bench(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand(
        "bench", "Measure the same work on several devices: whole steps, every kernel, copies");
    const auto flags = std::make_shared<BenchFlags>();
    BenchSettings& s = flags->settings;
    command->add_option("--recipe", s.recipe, recipe_help)->capture_default_str();
    add_set(*command, flags->set);
    command->add_option("--backend", flags->backend,
                        "Measure all devices of this backend: cuda, vulkan or cpu");
    command->add_option("--towers", flags->towers,
                        "Measure these devices, such as vulkan:0,cpu ('towers devices' lists them; default: "
                        "those that training would use, and the CPU)");
    command->add_flag("--together", flags->together,
                      "Also measure all of them as the towers of one run that averages their gradients, and "
                      "the shares that promise most");
    command->add_flag("--subsets", flags->subsets,
                      "Also predict and measure which of the towers of the --together run are fastest");
    command->add_option("--shares", flags->shares,
                        "How the towers of the --together run share the global batch: even (the default), or "
                        "a ratio such as 3:1");
    add_number(*command, "--batch", s.batch, "Number of examples per tower and step", 1)
        ->capture_default_str();
    add_number(*command, "--repetitions", s.repetitions,
               "Number of times to repeat all measurements; the devices take turns", 1)
        ->capture_default_str();
    CLI::Option* const steps =
        add_number(*command, "--steps", s.steps,
                   "Number of steps in a repetition (default: as many as --seconds allows)", 1);
    CLI::Option* const seconds = add_number(*command, "--seconds", s.seconds,
                                            "Seconds for the steps of a repetition; at least one step runs")
                                     ->capture_default_str();
    add_number(*command, "--warm-up", s.warm_up,
               "Number of steps before the first repetition (default: 2, then more until half of --seconds "
               "has passed)",
               1);
    add_threads(*command, s.threads);
    add_exact_products(*command, flags->open.exact_products);
    add_precision(*command, flags->products, "the recipe's");
    command->add_option("--variants", flags->variants,
                        "Instead measure all ways in which the devices can run the step's launches of this "
                        "kernel, such as conv2d_forward or 'conv2d*', or this operation");
    command->add_option("--json", flags->json, "Write the report to this file as JSON");
    command->add_option("--html", flags->html, "Write the report to this file as a page with charts");
    CLI::Option* const baseline =
        command->add_option("--baseline", flags->baseline,
                            "Compare with this earlier JSON report; exit with code 1 if a device is slower "
                            "or, unless --towers or --backend chooses the devices, missing");
    add_number(*command, "--tolerance", flags->tolerance,
               "Fraction by which a device may be slower than in --baseline: 0.1 is 10 %")
        ->capture_default_str()
        ->needs(baseline);
    seconds->excludes(steps);
    add_device_flags(*command, flags->open);
    command->callback([flags, command, &chosen] {
        chosen = [flags, command] {
            std::vector<std::string> lines = common_lines(*command);
            const auto lines_with_recipe = [&] {
                lines.push_back(fmt::format("a recipe of checksum {}",
                                            find_recipe(flags->settings.recipe, flags->set).checksum));
                return lines;
            };
            return run_on_ranks(
                [&](Ranks* ranks) { return ranks ? lead(*flags, lines_with_recipe(), *ranks) : run(*flags); },
                [&](Ranks& ranks) { follow(*flags, lines_with_recipe(), ranks); });
        };
    });
}

} // namespace towers
