#include "apps/towers/commands.h"
#include "apps/towers/flags.h"
#include "apps/towers/hint.h"
#include "apps/towers/progress.h"
#include "apps/towers/settings.h"
#include "engine/data/source.h"
#include "engine/error.h"
#include "engine/towers/selection.h"
#include "engine/towers/shares.h"
#include "engine/train/loop.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <unistd.h>

namespace towers {
namespace {

struct TrainFlags {
    TrainSettings settings;
    std::string config, run, progress = "auto";
    bool resume = false;
    OpenOptions open;
};

std::atomic<bool> stop_requested = false;

/// The first signal asks for a clean end; a second one ends the program at once.
void request_stop(int signal) {
    stop_requested = true;
    std::signal(signal, SIG_DFL);
}

std::string default_run_directory(const std::string& recipe) {
    const std::string name =
        fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", recipe, fmt::localtime(std::time(nullptr)));
    std::string free = name; // two runs may begin in one second
    for (int i = 2; std::filesystem::exists(free); ++i) free = fmt::format("{}-{}", name, i);
    return free;
}

void check(const TrainSettings& s) {
    const auto complain = [](const std::string& what) { throw UsageError(what); };
    if (s.batch && *s.batch == 0) complain("--batch 0: give at least 1 example per tower");
    if (s.lr && !(*s.lr >= 0 && std::isfinite(float(*s.lr)))) // the kernels take a float
        complain(fmt::format("--lr {}: give a number of at least 0, within a float's range", *s.lr));
    if (s.epochs && !(*s.epochs > 0 && std::isfinite(*s.epochs)))
        complain(fmt::format("--epochs {}: give a number above 0", *s.epochs));
    if (s.epochs && s.steps) complain("--steps and --epochs both say how long to train; give one of them");
    check_threads(s.threads);
    if (!s.towers.empty() && !s.backend.empty())
        complain("--towers and --backend both say which devices to use; give one of them");
}

int run_train(TrainFlags& flags) {
    TrainSettings& settings = flags.settings;
    check(settings);
    Recipe recipe = find_recipe(settings.recipe);
    const Quirks quirks = parse_quirks(settings.quirks);
    flags.open.threads = settings.threads;
    const std::vector<std::string> towers = select_towers(settings.backend, settings.towers, flags.open);
    const std::vector<double> shares =
        settings.shares.empty() ? std::vector<double>{} : parse_shares(settings.shares);
    settings.towers = fmt::format("{}", fmt::join(towers, ","));
    settings.backend.clear();
    settings.batch = settings.batch.value_or(recipe.batch);
    settings.lr = settings.lr.value_or(recipe.learning_rate);
    const unsigned global = global_batch(*settings.batch, towers.size());
    share_out(global, unsigned(towers.size()), shares); // before anything is opened
    if (settings.data != "shapes")
        settings.data = std::filesystem::absolute(settings.data).lexically_normal().string();
    if (!settings.init.empty())
        settings.init = std::filesystem::absolute(settings.init).lexically_normal().string();

    if (flags.run.empty()) flags.run = default_run_directory(recipe.name);
    if (!settings.seed) settings.seed = flags.resume ? run_seed(flags.run) : 1;

    const Dataset data = load_dataset(settings.data, Split::train, *settings.seed);
    Trainer trainer(recipe,
                    {.towers = towers,
                     .global_batch = global,
                     .shares = shares,
                     .learning_rate = *settings.lr,
                     .seed = *settings.seed,
                     .distort = settings.distort,
                     .shuffle = settings.shuffle,
                     .quirks = quirks,
                     .open = flags.open},
                    data);
    if (!settings.init.empty() && !flags.resume)
        trainer.load(from_initial(read_safetensors(settings.init), trainer.layout(), settings.init));
    // Not before all that the run needs is known to be there: this may delete an earlier one.
    RunDirectory run(flags.run, flags.resume        ? Existing::resume
                                : quirks.delete_run ? Existing::erase
                                                    : Existing::refuse);
    const CheckpointOrigin origin{recipe.name, *settings.seed, data.size(), data.checksum()};
    if (flags.resume) resume(trainer, run, origin);
    if (settings.epochs) settings.steps = trainer.steps_until(*settings.epochs);
    settings.epochs.reset();
    settings.steps = settings.steps.value_or(recipe.steps);
    const LoopOptions loop{.steps = *settings.steps,
                           .save_every = settings.save_every,
                           .keep = settings.keep,
                           .log_every = settings.log_every,
                           .origin = origin,
                           .global_batch = global};
    if (!flags.resume) save_checkpoint(trainer, run, loop);
    run.write_config(write_settings(settings));

    for (std::size_t i = 0; i < trainer.tower_count(); ++i)
        fmt::print("tower_{}: {} ({}), {} examples a step\n", i, trainer.tower(i).info().id,
                   trainer.tower(i).info().name, trainer.tower(i).share());
    if (flags.resume) {
        const std::uint64_t done = trainer.steps_done();
        fmt::print(
            "resumed at step {}{}\n", done,
            done < *settings.steps
                ? ""
                : fmt::format(": nothing is left of {} steps, give more with --steps", *settings.steps));
    }
    std::fflush(stdout);

    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    const bool live = flags.progress == "live" || (flags.progress == "auto" && isatty(STDOUT_FILENO) == 1);
    ProgressPrinter printer({.live = live,
                             .log_towers = settings.log_towers,
                             .divided_batch_time = quirks.divided_batch_time,
                             .steps = *settings.steps,
                             .towers = trainer.tower_count()});
    const Ending ending =
        train(trainer, run, loop, stop_requested, [&](const Progress& progress) { printer.show(progress); });
    printer.finish();
    fmt::print("{}: saved {}\n", ending == Ending::stopped ? "stopped" : "done",
               run.latest().value().string());
    if (ending == Ending::stopped)
        fmt::print("go on with: {}\n", hint({"train", "--run", path_argument(flags.run), "--resume"}));
    else
        fmt::print("evaluate with: {}\n", hint({"eval", "--run", path_argument(flags.run)}));
    return 0;
}

} // namespace

void add_train(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("train", "Train a model");
    const auto flags = std::make_shared<TrainFlags>();
    add_settings(*command, flags->settings);
    command->add_option("--run", flags->run,
                        "Run directory for checkpoints and metrics (default: a new one under runs/)");
    command->add_flag("--resume", flags->resume,
                      "Go on with the run in --run, with its settings where no flag says otherwise");
    command->add_option(
        "--config", flags->config,
        "Take the settings in this TOML file, such as a run's config.toml; flags override them");
    command
        ->add_option("--progress", flags->progress,
                     "live: one line written over; log: the tutorial's log lines; auto: live on a terminal")
        ->check(one_of({"auto", "live", "log"}))
        ->type_name("auto|live|log")
        ->capture_default_str();
    add_validate(*command, flags->open);
    command->callback([flags, command, &chosen] {
        chosen = [flags, command] {
            if (flags->resume && flags->run.empty())
                throw UsageError("--resume: say which run with --run DIR");
            const std::filesystem::path kept = std::filesystem::path(flags->run) / "config.toml";
            if (flags->resume && std::filesystem::exists(kept)) read_settings(kept, flags->settings);
            if (!flags->config.empty()) read_settings(flags->config, flags->settings);
            override_settings(*command, flags->settings);
            return run_train(*flags);
        };
    });
}

} // namespace towers
