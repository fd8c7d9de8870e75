#include "apps/towers/commands.h"
#include "apps/towers/ending.h"
#include "apps/towers/flags.h"
#include "apps/towers/hint.h"
#include "apps/towers/progress.h"
#include "apps/towers/resume.h"
#include "apps/towers/settings.h"
#include "apps/towers/tower_table.h"
#include "engine/data/formats.h"
#include "engine/error.h"
#include "engine/files/output.h"
#include "engine/plural.h"
#include "engine/towers/selection.h"
#include "engine/towers/shares.h"
#include "engine/trace/trace.h"
#include "engine/train/loop.h"
#include "engine/train/metrics.h"

#include <atomic>
#include <cctype>
#include <cmath>
#include <csignal>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <memory>
#include <optional>
#include <spdlog/spdlog.h>
#include <system_error>
#include <unistd.h>

namespace towers {
namespace {

struct TrainFlags {
    TrainSettings settings;
    std::string config, run, progress = "auto";
    bool resume = false;
    std::optional<std::uint64_t> resume_from;
    std::string trace_path;
    std::optional<std::uint64_t> trace_steps;
    OpenOptions open;
    std::optional<Past> past;     ///< set by --resume
    std::shared_ptr<Trace> trace; ///< set by --trace
};

std::atomic<bool> stop_requested = false;

/// The first signal asks for a clean end; the second one of a user ends the program at once. A terminal that
/// closes may send several, and a closed pipe sends one for each line.
void request_stop(int signal) {
    stop_requested = true;
    if (signal == SIGINT || signal == SIGTERM) std::signal(signal, SIG_DFL);
}

void end_on_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
        struct sigaction before {};
        // What is ignored stays so: nohup does that with SIGHUP, a shell with SIGINT of a background job.
        if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
            std::signal(signal, request_stop);
    }
}

/// Prints while a run lasts. Where standard output fails (a full disk, a closed pipe or terminal), that costs
/// its lines and not the training; complain_of_output() says so at the end.
template<class Print>
void try_to(const Print& print) {
    try {
        print();
    } catch (const std::system_error&) {
    }
}

/// Throws when not all could be printed. `end`: what the user would else not see.
void complain_of_output(const std::string& end) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    throw InputError(fmt::format("cannot write to standard output; the output is incomplete; {}", end));
}

std::atomic<bool> table_requested = false;

/// Makes a folder for a run without --run.
std::string make_run_directory(const std::string& recipe) {
    return make_new_folder(
               fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", recipe, fmt::localtime(std::time(nullptr))))
        .string();
}

void check(const TrainSettings& s) {
    const auto complain = [](const std::string& what) { throw UsageError(what); };
    if (s.batch && *s.batch == 0) complain("--batch 0: give at least 1 example per tower");
    if (s.global_batch && (*s.global_batch == 0 || *s.global_batch > largest_global_batch))
        complain(fmt::format("--global-batch {}: give 1 to {}", *s.global_batch, largest_global_batch));
    if (s.micro_batch && *s.micro_batch == 0) complain("--micro-batch 0: give at least 1 example");
    if (s.batch && s.global_batch)
        complain("--batch and --global-batch both say how many examples a step takes; give one of them");
    if (s.lr && !(*s.lr >= 0 && std::isfinite(float(*s.lr)))) // the kernels take a float
        complain(fmt::format("--lr {}: give a number of at least 0, within a float's range", *s.lr));
    if (s.epochs && !(*s.epochs > 0 && std::isfinite(*s.epochs)))
        complain(fmt::format("--epochs {}: give a number above 0", *s.epochs));
    if (s.epochs && s.steps) complain("--steps and --epochs both say how long to train; give one of them");
    if (s.on_device_loss != "continue" && s.on_device_loss != "stop")
        complain(fmt::format("--on-device-loss '{}': give continue or stop", s.on_device_loss));
    if (!(s.device_timeout >= 0 && std::isfinite(s.device_timeout)))
        complain(
            fmt::format("--device-timeout {}: give a number of seconds of at least 0", s.device_timeout));
    check_threads(s.threads);
}

/// Warns now about bad test examples: evaluation needs them, but may be hours away.
void check_test_data(const TrainSettings& settings) {
    try {
        if (is_path(settings.data)) open_data({settings.data, Split::test});
    } catch (const InputError& error) {
        spdlog::warn("{}; training continues, but eval needs the test examples", error.what());
    }
}

/// A resumed run goes on with the recipe that it keeps, unless the user asks for another.
Recipe recipe_of(const TrainFlags& flags) {
    const TrainSettings& settings = flags.settings;
    if (flags.past) {
        const TrainSettings& latest = flags.past->latest.settings;
        const std::filesystem::path kept = recipe_path_in(flags.run);
        if (settings.recipe == latest.recipe && settings.set == latest.set && std::filesystem::exists(kept))
            return read_recipe(recipe_name(settings.recipe), kept);
    }
    return recipe_with(settings.recipe, settings.set);
}

/// Says so when the data cannot teach the network all its classes.
void compare_classes(const Recipe& recipe, const DataInfo& data) {
    const unsigned classes = recipe.model.classes - recipe.model.label_offset;
    if (data.classes.size() < classes)
        fmt::print("{} tells {} classes apart, and {} has {} of them\n", recipe.name, classes, data.name,
                   data.classes.size());
}

/// Each tower's device and its part of the next step.
void print_towers(const Trainer& trainer) {
    const std::vector<unsigned> examples = trainer.shares();
    for (std::size_t i = 0; i < examples.size(); ++i) {
        const Tower& tower = trainer.tower(i);
        const std::string pieces = to_string(tower.at_once());
        fmt::print("tower_{}: {} ({}), {} a step{}{}\n", i, tower.info().id, tower.info().name,
                   count_of(examples[i], "example"), pieces.empty() ? "" : " in ", pieces);
    }
}

/// The absolute path of the metrics that --shares names, or whose run's folder it names.
std::string recorded_path(const std::string& shares, const std::string& run) {
    namespace fs = std::filesystem;
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
    return fs::absolute(path).lexically_normal().string();
}

/// The shares that the file has behind the @.
std::vector<SharesFrom> read_recorded(const std::string& shares) {
    std::vector<SharesFrom> recorded;
    try {
        recorded = read_shares(shares.substr(1));
    } catch (const InputError& error) {
        throw UsageError(fmt::format("--shares: {}", error.what()));
    }
    if (recorded.empty())
        throw UsageError(fmt::format(
            "--shares '{}': the file tells of no shares; give @ and the path of a run of several towers",
            shares));
    return recorded;
}

/// What --shares says.
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

/// A resumed run of the same towers begins with the shares that it has found.
void begin_as_before(SharePolicy& policy, const std::string& run, const Past& past,
                     const std::vector<std::string>& towers, unsigned global, unsigned group) {
    const std::filesystem::path metrics = metrics_path_in(run);
    const std::uint64_t step = checkpoint_step(past.checkpoint.file, past.checkpoint.path);
    if (!policy.automatic || towers != past.trained.towers || step == 0 || !std::filesystem::exists(metrics))
        return;
    const std::vector<SharesFrom> recorded = read_shares(metrics);
    if (recorded.empty()) return;
    SharePolicy found{.automatic = true, .weights = {}, .recorded = {{0, shares_at(recorded, step - 1)}}};
    try {
        first_shares(found, global, unsigned(towers.size()), group);
        policy = found;
    } catch (const UsageError&) { // another batch, or other groups
    }
}

/// Refuses what --batch cannot ask for: less than an example, or a group, for each tower.
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

/// Returns what the user should know of it, in whole lines.
std::string write_trace(const Trace& trace, const std::string& path) {
    const auto [first, last] = trace.steps();
    if (first == Trace::none) return "no trace is written: the run took no step\n";
    trace.write(path);
    std::string lines;
    for (const std::string& note : trace.notes()) lines += note + "\n";
    return lines +
           fmt::format("trace of steps {} to {}: {} (https://ui.perfetto.dev shows it)\n", first, last, path);
}

/// The run's own failure is what counts.
void write_trace_of_failed(const TrainFlags& flags) {
    try {
        const std::string lines = write_trace(*flags.trace, flags.trace_path);
        try_to([&] { fmt::print("{}", lines); });
    } catch (const std::exception& error) {
        spdlog::warn("no trace is written: {}", error.what());
    }
}

int run_train(TrainFlags& flags) {
    TrainSettings& settings = flags.settings;
    const std::optional<Past>& past = flags.past;
    check(settings);
    const Recipe recipe = recipe_of(flags);
    const Quirks quirks = parse_quirks(settings.quirks);
    flags.open.threads = settings.threads;
    const std::vector<std::string> towers = select_towers(settings.backend, settings.towers, flags.open);
    if (past) adopt_layout(settings, *past, towers);
    if (settings.shares.empty() && towers.size() > 1) settings.shares = "auto";
    if (settings.shares == "auto" && towers.size() == 1) settings.shares.clear();
    if (settings.shares.starts_with('@')) settings.shares = '@' + recorded_path(settings.shares, flags.run);
    SharePolicy shares = read_policy(settings.shares);
    settings.towers = fmt::format("{}", fmt::join(towers, ","));
    settings.backend.clear();
    if (!settings.global_batch) settings.batch = settings.batch.value_or(recipe.batch);
    settings.lr = settings.lr.value_or(recipe.optimizer->learning_rate);
    const unsigned global =
        settings.global_batch ? *settings.global_batch : global_batch(*settings.batch, towers.size());
    if (settings.global_batch) check_global_batch(global, towers.size(), recipe.model.group());
    if (past) begin_as_before(shares, flags.run, *past, towers, global, recipe.model.group());
    first_shares(shares, global, unsigned(towers.size()),
                 recipe.model.group()); // throws before anything is opened
    if (is_recipe_file(settings.recipe))
        settings.recipe = std::filesystem::absolute(settings.recipe).lexically_normal().string();
    if (is_path(settings.data))
        settings.data = std::filesystem::absolute(settings.data).lexically_normal().string();
    if (!settings.init.empty())
        settings.init = std::filesystem::absolute(settings.init).lexically_normal().string();

    settings.seed = settings.seed.value_or(1);

    const RunDirectory* begun = nullptr; // once it is
    std::optional<ProgressPrinter> printer;
    const auto give_up = [&](const DeviceError& error) {
        if (printer) printer->finish();
        if (flags.trace) write_trace_of_failed(flags);
        end_at_once(report(work_failed, error.what() + (begun != nullptr ? way_on(*begun) : "")));
    };
    const std::unique_ptr<DataSource> opened =
        open_data({settings.data, Split::train, *settings.seed, shapes_size(recipe)});
    const DataSource& data = *opened;
    check_test_data(settings);
    Trainer trainer(recipe,
                    {.towers = towers,
                     .global_batch = global,
                     .shares = shares,
                     .micro_batch = settings.micro_batch.value_or(0),
                     .outlive_devices = settings.on_device_loss == "continue",
                     .device_timeout = settings.device_timeout > 0 ? settings.device_timeout
                                                                   : std::numeric_limits<double>::infinity(),
                     .give_up = give_up,
                     .learning_rate = *settings.lr,
                     .seed = *settings.seed,
                     .distort = settings.distort,
                     .shuffle = settings.shuffle,
                     .quirks = quirks,
                     .open = flags.open,
                     .trace = flags.trace},
                    data);
    if (!settings.init.empty() && !past) trainer.load(read_initial(settings.init, trainer.layout()));
    // Only now, when all that the run needs is known to be there, because this may delete an earlier run.
    if (flags.run.empty()) flags.run = make_run_directory(recipe.name);
    RunDirectory run(flags.run, past                ? Existing::resume
                                : quirks.delete_run ? Existing::erase
                                                    : Existing::refuse);
    begun = &run;
    const CheckpointOrigin origin{recipe.name,
                                  *settings.seed,
                                  data.size(),
                                  data.checksum(),
                                  write_settings(settings, Settings::of_training),
                                  recipe.checksum};
    if (past) {
        // The checkpoint was read before the folder was locked.
        if (!flags.resume_from && run.latest() != past->checkpoint.path)
            throw InputError(
                fmt::format("{}: another program continued this run in the meantime; try again", flags.run));
        resume(trainer, recipe, past->checkpoint, origin);
    }
    if (settings.epochs) settings.steps = trainer.steps_until(*settings.epochs);
    settings.epochs.reset();
    settings.steps = settings.steps.value_or(recipe.steps);
    const LoopOptions loop{.steps = *settings.steps,
                           .save_every = settings.save_every,
                           .keep = settings.keep,
                           .log_every = settings.log_every,
                           .origin = origin,
                           .global_batch = global,
                           .data = &data};
    if (past && trainer.steps_done() >= *settings.steps) {
        fmt::print("nothing to do: {} steps are asked for, and {} has {}; ask for more with --steps\n",
                   *settings.steps, past->checkpoint.path.string(), trainer.steps_done());
        fmt::print("evaluate with: {}\n", hint({"eval", "--run", path_argument(flags.run)}));
        return 0;
    }
    const auto replaced = past ? rewind(run, trainer) : std::nullopt;
    if (!past) save_checkpoint(trainer, run, loop);
    run.write_recipe(recipe.text);
    const std::string config = "# The settings of this run; 'towers train --config' accepts this file.\n" +
                               write_settings(settings, Settings::all);
    run.write_config(config);

    end_on_signals();
    try_to([&] { compare_classes(recipe, data.info()); });
    const std::string probed = probe(trainer, run, stop_requested);
    try_to([&] {
        print_towers(trainer);
        if (!probed.empty()) fmt::print("{}\n", probed);
        if (past) {
            fmt::print("resumed at step {}\n", trainer.steps_done());
            print_changes(past->trained, settings, global);
            if (replaced)
                fmt::print("moved later checkpoints and a copy of the metrics to {}\n", replaced->string());
        }
    });
    std::fflush(stdout);

    std::signal(SIGUSR1, [](int) { table_requested = true; });
    const bool live = flags.progress == "live" || (flags.progress == "auto" && isatty(STDOUT_FILENO) == 1);
    printer.emplace(ProgressOptions{.live = live,
                                    .log_towers = settings.log_towers,
                                    .divided_batch_time = quirks.divided_batch_time,
                                    .steps = *settings.steps,
                                    .towers = trainer.tower_count()});
    const auto show_table = [&] {
        printer->finish();
        fmt::print("{}", tower_table(trainer));
        std::fflush(stdout);
    };
    const auto observe = [&](const Progress& progress) {
        try_to([&] {
            printer->show(progress);
            if (table_requested.exchange(false)) show_table();
        });
    };
    const auto warn = [&](const std::string& what) {
        printer->finish();
        spdlog::warn("{}", what);
    };
    const auto end_log = [&] {
        try_to([&] { trainer.tower_count() > 1 ? show_table() : printer->finish(); });
    };
    Ending ending{};
    try {
        ending = train(trainer, run, loop, stop_requested, observe, warn);
    } catch (...) { // of a run that fails too the table says how the towers have done
        end_log();
        throw;
    }
    end_log();
    const std::string saved = fmt::format("{}: saved {}", ending == Ending::stopped ? "stopped" : "done",
                                          run.checkpoint_path(trainer.steps_done()).string());
    const std::string then =
        ending == Ending::stopped
            ? "resume with: " + hint({"train", "--run", path_argument(flags.run), "--resume"})
            : "evaluate with: " + hint({"eval", "--run", path_argument(flags.run)});
    if (settings.shares == "auto") {
        try {
            run.write_config(fmt::format("{}# The shares of the last step: {}\n", config,
                                         to_string(trainer.last_shares())));
        } catch (const InputError& error) {
            throw InputError(fmt::format("{}; {}", error.what(), saved));
        }
    }
    try_to([&] { fmt::print("{}\n{}\n", saved, then); });
    complain_of_output(fmt::format("{}; {}", saved, then));
    return 0;
}

/// Before the run begins: what is found only when the trace is written costs a run.
void check_trace(const TrainFlags& flags) {
    if (flags.trace_path.empty()) {
        if (flags.trace_steps) throw UsageError("--trace-steps: name the file to write with --trace FILE");
        return;
    }
    namespace fs = std::filesystem;
    const auto complain = [&](const std::string& what) {
        throw UsageError(fmt::format("--trace '{}': {}", flags.trace_path, what));
    };
    if (is_standard_output(flags.trace_path)) complain("the log is there; give a file");
    try {
        const fs::path path = fs::weakly_canonical(fs::absolute(flags.trace_path));
        const fs::path run =
            flags.run.empty() ? fs::path() : fs::weakly_canonical(fs::absolute(flags.run) / "");
        if (fs::is_directory(path) || path / "" == run) complain("is a folder; give a file");
        // The run will make its own folder.
        if (path.parent_path() / "" != run)
            check_output(path);
        else if (const std::string name = path.filename().string(); is_run_file(name) || name == "lock")
            complain("the run has a file of this name; give another");
    } catch (const UsageError&) {
        throw;
    } catch (const fs::filesystem_error& error) {
        complain(error.code().message());
    } catch (const InputError& error) {
        complain(error.what());
    }
}

/// Writes the trace also of a run that fails: then above all it is wanted. The run has ended, because what a
/// device did is in the trace once it is closed.
int run_train_traced(TrainFlags& flags) {
    check_trace(flags);
    if (flags.trace_path.empty()) return run_train(flags);
    constexpr std::uint64_t default_steps = 10;
    flags.trace = std::make_shared<Trace>(flags.trace_steps.value_or(default_steps));
    int code = 0;
    try {
        code = run_train(flags);
    } catch (...) {
        write_trace_of_failed(flags);
        throw;
    }
    fmt::print("{}", write_trace(*flags.trace, flags.trace_path));
    return code;
}

} // namespace

void add_train(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("train", "Train a model");
    const auto flags = std::make_shared<TrainFlags>();
    add_settings(*command, flags->settings);
    command->add_option("--run", flags->run,
                        "Run directory for checkpoints and metrics (default: a new one under runs/)");
    command->add_flag("--resume", flags->resume,
                      "Resume the run in --run, with its settings unless a flag overrides them");
    add_number(*command, "--resume-from", flags->resume_from,
               "Resume the run in --run from the checkpoint of step N; move later checkpoints to "
               "RUN/replaced-1 (or the next free number)");
    command->add_option(
        "--config", flags->config,
        "Take the settings in this TOML file, such as a run's config.toml; flags override them");
    command
        ->add_option("--progress", flags->progress,
                     "How to show progress: live updates one line in place; log prints the tutorial's log "
                     "lines; auto is live on a terminal, else log")
        ->check(one_of({"auto", "live", "log"}))
        ->type_name("auto|live|log")
        ->capture_default_str();
    command->add_option("--trace", flags->trace_path,
                        "Write a trace of the run's last steps to this file, for https://ui.perfetto.dev: "
                        "each tower's kernels, copies and waits, and the host's averaging");
    add_number(*command, "--trace-steps", flags->trace_steps, "Steps to keep for --trace (default: 10)", 1);
    add_validate(*command, flags->open);
    command->callback([flags, command, &chosen] {
        chosen = [flags, command] {
            flags->resume = flags->resume || flags->resume_from;
            if (flags->resume && flags->run.empty())
                throw UsageError("--resume: name the run with --run DIR");
            TrainSettings& settings = flags->settings;
            if (flags->resume) {
                flags->past = find_past(flags->run, flags->resume_from, flags->config, flags->open);
                settings = settings_to_go_on_with(*flags->past);
            }
            if (!flags->config.empty()) read_settings(flags->config, settings);
            override_settings(*command, settings);
            if (flags->resume && (command->get_option("--init")->count() > 0 ||
                                  settings.init != flags->past->latest.settings.init))
                throw UsageError("--init: a resumed run starts from its checkpoint's variables; leave out "
                                 "--init or start another run");
            if (flags->resume && !settings.steps && !settings.epochs)
                throw UsageError(
                    fmt::format("--steps: {} does not say how long to train; give --steps or --epochs",
                                config_of(flags->run).string()));
            return run_train_traced(*flags);
        };
    });
}

} // namespace towers
