#include "apps/towers/resolved_run.h"

#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "backends/cache.h"
#include "backends/error.h"
#include "engine/data/formats.h"
#include "engine/model/freeze.h"
#include "engine/observers/times.h"
#include "engine/recipes/recipes.h"
#include "engine/reduce/wire.h"
#include "engine/run/read_metrics.h"
#include "engine/train/loop.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <set>

namespace towers {
namespace {

namespace fs = std::filesystem;

void check(const TrainSettings& s) {
    const auto complain = [](const std::string& what) { throw UsageError(what); };
    if (s.batch && *s.batch == 0) complain("--batch 0: give at least 1 example per tower");
    if (s.global_batch && (*s.global_batch == 0 || *s.global_batch > largest_global_batch))
        complain(fmt::format("--global-batch {}: give 1 to {}", *s.global_batch, largest_global_batch));
    if (s.micro_batch && *s.micro_batch == 0) complain("--micro-batch 0: give at least 1 example");
    if (s.batch && s.global_batch)
        complain("--batch and --global-batch both say how many examples a step takes; give one of them");
    if (s.lr && !(*s.lr >= 0 && std::isfinite(float(*s.lr)))) // the kernels use a float
        complain(fmt::format("--lr {}: give a number of at least 0, within a float's range", *s.lr));
    if (s.epochs && !(*s.epochs > 0 && std::isfinite(*s.epochs)))
        complain(fmt::format("--epochs {}: give a number above 0", *s.epochs));
    if (s.epochs && s.steps) complain("--steps and --epochs both say how long to train; give one of them");
    if (held_out_by(s.hold_out, s.fold).any() && !s.test_data.empty())
        complain(fmt::format("--{} and --test-data both say what to test on; give one of them",
                             s.fold.empty() ? "hold-out" : "fold"));
    if (s.on_device_loss != "continue" && s.on_device_loss != "stop")
        complain(fmt::format("--on-device-loss '{}': give continue or stop", s.on_device_loss));
    device_timeout(s.device_timeout);
    const std::pair<const char*, bool> of_tests[] = {{"--eval-raw", s.eval_raw},
                                                     {"--eval-auc", s.eval_auc},
                                                     {"--best-by", !s.best_by.empty()},
                                                     {"--keep-best", s.keep_best},
                                                     {"--stop-early", s.stop_early != 0}};
    best_by(s);
    for (const auto& [flag, given] : of_tests)
        if (given && s.eval_every == 0)
            complain(fmt::format("{}: this run makes no test passes; give --eval-every N too", flag));
    check_threads(s.threads);
    parse_feeding(s.feed);
    parse_wire(s.wire);
    if (s.readers && (*s.readers == 0 || *s.readers > most_readers))
        complain(fmt::format("--readers {}: give 1 to {}", *s.readers, most_readers));
}

/// How the recipe's test passes are judged.
void check_best_by(const TrainSettings& s, const Recipe& recipe) {
    const bool plateau = recipe.schedule.kind == Schedule::Kind::plateau;
    if (plateau && s.eval_every == 0)
        throw UsageError(
            "the recipe's schedule 'plateau' waits for test passes, and this run makes none; give "
            "--eval-every N too");
    for (const bool has_label_sets : {false, true}) // chosen where nothing else is
        if (s.best_by.empty() || s.best_by == usual_metric(has_label_sets).name) return;
    if (!are_judged(s.keep_best, s.stop_early, recipe.schedule))
        throw UsageError(
            fmt::format("--best-by {}: nothing is judged by it; give --keep-best or --stop-early N "
                        "too, or a recipe whose schedule is 'plateau'",
                        s.best_by));
    if (s.best_by == "top_5_accuracy" && recipe.model.classes <= few_classes)
        throw UsageError(fmt::format("--best-by {}: the network tells {} classes apart, so every example is "
                                     "among {}; give another metric",
                                     s.best_by, recipe.model.classes, few_classes));
}

/// A resumed run uses its own copy of the recipe, unless the user asks for another.
Recipe recipe_of(const TrainSettings& settings, const std::string& run, const std::optional<Past>& past) {
    if (past) {
        const TrainSettings& latest = past->latest.settings;
        const fs::path kept = recipe_path_in(run);
        if (settings.recipe == latest.recipe && settings.set == latest.set && fs::exists(kept))
            return read_recipe(recipe_name(settings.recipe), kept);
    }
    return recipe_with(settings.recipe, settings.set);
}

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

/// The absolute path of the metrics that --shares names, directly or by their run's folder.
std::string recorded_path(const std::string& shares, const std::string& run) {
    const auto complain = [&](const char* what) {
        throw UsageError(fmt::format("--shares '{}': {}", shares, what));
    };
    const fs::path named = shares.substr(1);
    const bool is_folder = fs::is_directory(named);
    const fs::path path = is_folder ? metrics_path_in(named) : named;
    if (!fs::exists(path))
        complain(is_folder ? "the folder has no metrics.jsonl; give @ and the path of a run"
                           : "there is no such file; give @ and the path of a run or of its metrics.jsonl");
    if (!run.empty() && fs::weakly_canonical(path) == fs::weakly_canonical(metrics_path_in(run)))
        complain("this run is going to change the file; give a copy of it");
    return absolute(path.string());
}

/// The value of --shares for this many towers, as in config.toml.
std::string shares_to_keep(const std::string& shares, std::size_t towers, const std::string& run) {
    if (shares.starts_with('@')) return '@' + recorded_path(shares, run);
    if (shares.empty() && towers > 1) return "auto";
    if (shares == "auto" && towers == 1) return "";
    return shares;
}

/// The shares recorded in the file after the @.
std::vector<SharesFrom> read_recorded(const std::string& shares) {
    std::vector<SharesFrom> recorded;
    try {
        recorded = read_shares(shares.substr(1));
    } catch (const InputError& error) {
        throw UsageError(fmt::format("--shares: {}", error.what()));
    }
    if (recorded.empty())
        throw UsageError(fmt::format("--shares '{}': the file tells of no shares, as early versions' of one "
                                     "tower; give @ and the path of another run",
                                     shares));
    return recorded;
}

/// Reads --shares.
SharePolicy read_policy(const std::string& shares) {
    if (shares == "auto") return {.automatic = true, .weights = {}, .recorded = {}};
    if (shares.empty() || shares == "even") return {};
    if (!shares.starts_with('@'))
        return {.automatic = false,
                .weights =
                    parse_shares(shares, "auto, even, a ratio such as 3:1, or @ and the path of a run"),
                .recorded = {}};
    return {.automatic = false, .weights = {}, .recorded = read_recorded(shares)};
}

/// For each tower the place in `were`, of as many devices, of its own, or else of one that no tower has.
std::vector<std::size_t> places_in(const std::vector<std::string>& were,
                                   const std::vector<std::string>& towers) {
    const std::size_t none = were.size();
    std::vector<std::size_t> left(were.size()), places(towers.size(), none);
    std::iota(left.begin(), left.end(), 0u);
    const auto take = [&](std::size_t tower, auto place) {
        if (place == left.end()) return;
        places[tower] = *place;
        left.erase(place);
    };
    for (std::size_t i = 0; i < towers.size(); ++i)
        take(i, std::ranges::find(left, towers[i], [&](std::size_t place) { return were[place]; }));
    for (std::size_t i = 0; i < towers.size(); ++i)
        if (places[i] == none) take(i, left.begin());
    return places;
}

template<class T>
std::vector<T> in_order(const std::vector<T>& values, std::span<const std::size_t> places) {
    std::vector<T> ordered;
    if (values.empty()) return ordered; // micro-batches that are not recorded
    for (const std::size_t place : places) ordered.push_back(values[place]);
    return ordered;
}

/// Gives recorded shares to the towers with the devices of the run that recorded them, whatever their order
/// and ids are now.
void follow_devices(ResolvedRun& run, const Machine& machine) {
    const fs::path metrics = run.settings.shares.substr(1), folder = metrics.parent_path();
    if (metrics != metrics_path_in(folder)) return; // a copy, which has no times.jsonl beside it
    const std::vector<RunEvent> starts = starts_of(folder);
    std::vector<DeviceRecord> before;
    std::vector<std::string> were; // their ids now
    std::set<std::string> notes;
    for (SharesFrom& at : run.shares.recorded) {
        const auto start = std::find_if(starts.rbegin(), starts.rend(),
                                        [&](const RunEvent& event) { return event.step <= at.step; });
        if (start == starts.rend() || start->towers.size() != run.towers.size() ||
            start->towers.size() != at.shares.size())
            continue;
        if (before != start->towers) {
            before = start->towers;
            // No other device's share can be the processor's own.
            were = is_cpu_only("", run.settings.towers) ? ids_of(before) : machine.find(before, run.open).ids;
        }
        const std::vector<std::size_t> places = places_in(were, run.towers);
        at.shares = in_order(at.shares, places);
        at.micro_batches = in_order(at.micro_batches, places);
        const bool all = in_order(were, places) == run.towers;
        if (all && !std::ranges::is_sorted(places))
            notes.insert(
                fmt::format("the shares follow the devices of {}, whose order is --towers {}; the last "
                            "bits of the results depend on it",
                            folder.string(), fmt::join(were, ",")));
        for (std::size_t i = 0; i < run.towers.size() && !all; ++i)
            if (const auto& [id, name, uuid] = before[places[i]]; were[places[i]] != run.towers[i])
                notes.insert(fmt::format("tower_{} ({}) takes the shares of {} ({}) in {}", i, run.towers[i],
                                         id, name, folder.string()));
    }
    run.notes.assign(notes.begin(), notes.end());
}

/// Refuses a batch with less than one example, or group, per tower.
void check_global_batch(unsigned global, std::size_t towers, unsigned group) {
    const auto complain = [&](const std::string& what) {
        throw UsageError(fmt::format("--global-batch {}: {}", global, what));
    };
    const std::size_t least = towers * group;
    if (global >= least && global % group == 0) return;
    if (group == 1) complain(fmt::format("{} towers need an example each; give at least {}", towers, least));
    complain(fmt::format("the recipe's batch norm takes groups of {} examples, and each tower one or more; "
                         "give {} or a larger multiple of {}",
                         group, least, group));
}

/// The shares of the step before the one with which a run goes on; none if they are not known.
std::optional<SharesFrom> last_shares(const ResolvedRun& run, const Past& past, std::uint64_t step) {
    if (past.circumstances) return past.circumstances->shares();
    const fs::path metrics = metrics_path_in(run.folder); // an early version's
    if (step == 0 || !fs::exists(metrics)) return {};
    const std::vector<SharesFrom> recorded = read_shares(metrics);
    if (recorded.empty()) return {};
    return shares_at(recorded, step - 1);
}

/// A resumed run with the same towers begins with its last shares and micro-batches.
void begin_as_before(ResolvedRun& run, const Past& past) {
    if (run.towers != past.trained.towers) return;
    const std::uint64_t step = checkpoint_number(past.checkpoint.file, "step", past.checkpoint.path);
    std::optional<SharesFrom> last = last_shares(run, past, step);
    if (!last) return;
    last->step = step;
    if (run.settings.micro_batch != past.trained.settings.micro_batch) last->micro_batches.clear();
    SharePolicy& policy = run.shares;
    const auto towers = unsigned(run.towers.size());
    const unsigned group = run.recipe.model.group();
    try {
        first_shares({.automatic = false, .weights = {}, .recorded = {*last}}, run.global_batch, towers,
                     group);
        if (policy.automatic) {
            policy.recorded = {*last};
        } else if (last->micro_batches.empty()) {
            return;
        } else if (policy.recorded.empty()) {
            if (first_shares(policy, run.global_batch, towers, group) == last->shares)
                policy.recorded = {*last};
        } else {
            const auto after = std::ranges::upper_bound(policy.recorded, step, {}, &SharesFrom::step);
            const SharesFrom& at = shares_at(policy.recorded, step);
            if (at.shares == last->shares && (at.step < step || step == 0))
                policy.recorded.insert(after, *last);
        }
    } catch (const UsageError&) { // another batch, or other groups
    }
}

/// By --threads. Unless the user says otherwise, a resumed run goes on with its own number, on which the last
/// bits of the results depend, if the process may use so many.
unsigned threads_of(const TrainSettings& settings, const TrainFlags& flags, const std::optional<Past>& past) {
    const bool said =
        settings.threads != 0 || flags.settings.gives("threads") || std::getenv("OMP_NUM_THREADS") != nullptr;
    if (said || !past || !past->circumstances) return settings.threads;
    return past->circumstances->threads <= cpu_threads(0) ? past->circumstances->threads : 0;
}

/// Decides by --tune. A resumed run goes on with its own choices, unless the user names others.
std::optional<TuningOptions> tuning_of(TrainSettings& settings, const TrainFlags& flags, bool resumes) {
    std::optional<TuningOptions> by = tuning_by(settings);
    if (!by) return {};
    TuningOptions& tuning = *by;
    const bool measures = tuning.effort != Effort::none;
    const fs::path own = choices_path_in(flags.run);
    if (resumes && fs::exists(own) && (measures || !flags.settings.gives("tune"))) {
        tuning.known = own;
    } else if (!measures) {
        if (!fs::is_regular_file(settings.tune))
            throw UsageError(fmt::format("--tune '{}': give auto, off, quick, full, or the path of a file "
                                         "with choices, such as a run's choices.json",
                                         settings.tune));
        tuning.known = settings.tune = absolute(settings.tune);
        tuning.complete = true;
    }
    return by;
}

/// Refuses to go on without a device of the run.
void check_devices(const Course& latest) {
    if (latest.missing.empty()) return;
    std::vector<std::string> there = latest.towers;
    std::erase(there, "");
    throw UsageError(fmt::format(
        "--resume: {}; give --towers {}", latest.missing,
        there.empty() ? "to go on with other devices"
                      : fmt::format("{} to go on without it, or other devices", fmt::join(there, ","))));
}

} // namespace

std::optional<TuningOptions> tuning_by(const TrainSettings& settings) {
    constexpr double seconds_of_auto = 3;
    if (settings.tune == "off") return {};
    TuningOptions tuning{.effort = settings.tune == "auto"    ? Effort::automatic
                                   : settings.tune == "quick" ? Effort::quick
                                   : settings.tune == "full"  ? Effort::full
                                                              : Effort::none,
                         .exact_products = settings.exact_products,
                         .precision = *precision_of(settings.precision),
                         .changing_shares = settings.shares == "auto"};
    if (tuning.effort == Effort::automatic) tuning.budget = seconds_of_auto;
    if (tuning.effort != Effort::none) tuning.cache = cache_folder();
    return tuning;
}

RunInputs read_inputs(const TrainFlags& flags, const Machine& machine) {
    if (flags.resumes() && flags.run.empty()) throw UsageError("--resume: name the run with --run DIR");
    const Given given = given_by(flags);
    RunInputs inputs;
    auto& [past, settings] = inputs;
    if (flags.resumes()) {
        past = find_past(flags.run, flags.resume_from, given, flags.open, machine);
        settings = settings_to_go_on_with(*past);
    }
    replace(settings, given);
    const bool names_devices = given.gives("towers") || given.gives("backend");
    if (past && !names_devices) check_devices(past->latest);
    // Only the data that the run was trained on can follow, so the same pictures are held out.
    if (past && flags.settings.gives("data") && !flags.settings.gives("hold-out") &&
        !flags.settings.gives("fold")) {
        settings.hold_out = past->latest.settings.hold_out;
        settings.fold = past->latest.settings.fold;
    }
    if (past && (flags.settings.gives("init") || settings.init != past->latest.settings.init))
        throw UsageError("--init: a resumed run starts from its checkpoint's variables; leave out --init or "
                         "start another run");
    if (past && !settings.steps && !settings.epochs)
        throw UsageError(fmt::format("--steps: {} does not say how long to train; give --steps or --epochs",
                                     config_path_in(flags.run).string()));
    return inputs;
}

ResolvedRun resolve(const TrainFlags& flags, const RunInputs& inputs, const Machine& machine) {
    const std::optional<Past>& past = inputs.past;
    ResolvedRun run;
    run.folder = flags.run;
    run.open = flags.open;
    TrainSettings& settings = run.settings = inputs.settings;
    check(settings);
    run.recipe = recipe_of(settings, run.folder, past);
    if (settings.freeze == std::vector<std::string>{"none"}) settings.freeze.clear();
    check_best_by(settings, run.recipe);
    freeze(run.recipe.model, settings.freeze);
    run.quirks = parse_quirks(settings.quirks);
    run.existing = past ? Existing::resume : run.quirks.delete_run ? Existing::erase : Existing::refuse;
    run.open.timeout = device_timeout(settings.device_timeout);
    run.open.threads = threads_of(settings, flags, past);
    run.open.exact_products = settings.exact_products;
    choose_precision(run.open, precision_in(settings), {}, run.recipe);
    settings.precision = name_of(run.open.precision);

    run.towers = machine.select(settings.backend, settings.towers, run.open);
    if (past) adopt_layout(settings, *past, run.towers);
    settings.towers = fmt::format("{}", fmt::join(run.towers, ","));
    settings.backend.clear();
    const std::size_t towers = run.towers.size();
    const unsigned group = run.recipe.model.group();
    settings.shares = shares_to_keep(settings.shares, towers, run.folder);
    run.shares = read_policy(settings.shares);
    if (settings.shares.starts_with('@')) follow_devices(run, machine);
    if (settings.global_batch) {
        run.global_batch = *settings.global_batch;
        check_global_batch(run.global_batch, towers, group);
    } else {
        settings.batch = settings.batch.value_or(run.recipe.batch);
        run.global_batch = global_batch(*settings.batch, towers);
    }
    run.tuning = tuning_of(settings, flags, past.has_value());
    if (past) begin_as_before(run, *past);
    first_shares(run.shares, run.global_batch, unsigned(towers), group); // throws if they do not fit

    settings.lr = settings.lr.value_or(run.recipe.optimizer->learning_rate);
    settings.seed = settings.seed.value_or(1);
    if (!settings.epochs) settings.steps = settings.steps.value_or(run.recipe.steps);
    if (is_recipe_file(settings.recipe)) settings.recipe = absolute(settings.recipe);
    settings.data = absolute_source(settings.data);
    if (!settings.test_data.empty()) settings.test_data = absolute_source(settings.test_data);
    if (!settings.init.empty()) settings.init = absolute(settings.init);
    return run;
}

} // namespace towers
