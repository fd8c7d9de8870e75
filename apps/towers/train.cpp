#include "apps/towers/commands.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/ending.h"
#include "apps/towers/open_run.h"
#include "apps/towers/orders.h"
#include "apps/towers/placement_log.h"
#include "apps/towers/progress.h"
#include "apps/towers/ranks.h"
#include "apps/towers/report_page.h"
#include "apps/towers/resolved_run.h"
#include "apps/towers/start_over.h"
#include "apps/towers/trace_file.h"
#include "apps/towers/train_flags.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "backends/watched_device.h"
#include "engine/data/formats.h"
#include "engine/files/text.h"
#include "engine/observers/events.h"
#include "engine/observers/metrics.h"
#include "engine/observers/times.h"
#include "engine/plural.h"
#include "engine/recipes/batch_tables.h"
#include "engine/recipes/recipe_data.h"
#include "engine/reduce/wire.h"
#include "engine/train/initial.h"
#include "engine/train/loop.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

/// A new folder for a run without --run.
std::filesystem::path make_run_directory(const std::string& recipe) {
    return make_new_folder(
        fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", recipe, fmt::localtime(std::time(nullptr))));
}

/// The examples for the run's test passes.
std::unique_ptr<DataSource> open_tests(const TrainSettings& settings, const Recipe& recipe,
                                       const DataSource& trained) {
    try {
        return open_data_for(recipe,
                             data_request(settings, Split::test, *settings.seed, trained.info().classes));
    } catch (const InputError& error) {
        throw InputError(
            fmt::format("{}; --eval-every needs test examples, and --test-data names others", error.what()));
    }
}

/// Warns now about bad test examples: evaluation needs them, but may be hours away. Refuses those that
/// --test-data names. Returns whether there are sound ones.
bool check_test_data(const TrainSettings& settings, const Recipe& recipe, const DataSource& trained) {
    try {
        const DataRequest request =
            data_request(settings, Split::test, *settings.seed, trained.info().classes);
        if (is_path(request.source)) check_classes(recipe, open_data(request)->info(), request.source);
        return true;
    } catch (const InputError& error) {
        if (!settings.test_data.empty()) throw;
        spdlog::warn("{}; training continues, but eval needs the test examples", as_printable(error.what()));
        return false;
    }
}

/// Says what the classes count for in each loss that weighs them.
void print_class_weights(const Recipe& recipe, const DataSource& data) {
    const Model& model = recipe.model;
    const std::vector<std::string>& classes = data.info().classes;
    for (const LossHead& head : model.heads) {
        if (!head.is_weighted()) continue;
        const std::vector<double> weights = class_weights_of(head, model, data);
        const auto of_data = std::span(weights).subspan(model.label_offset, classes.size());
        const auto [least, most] = std::ranges::minmax_element(of_data);
        const auto name = [&](auto weight) {
            return as_printable(classes[std::size_t(weight - of_data.begin())]);
        };
        fmt::print("{} weights of {}: from {:.3g} ({}) to {:.3g} ({})\n",
                   head.kind == LossKind::softmax ? "class" : "positive",
                   model.nodes[std::size_t(head.node)].name, *least, name(least), *most, name(most));
    }
    if (recipe.sampling == Sampling::balanced)
        fmt::print("each class comes equally often{}\n",
                   model.weighted_heads() == 0
                       ? ""
                       : ", and its weight counts besides, which is too much for rare ones: "
                         "leave out the sampler or the weights");
}

/// Each device once.
std::vector<std::string> without_repeats(std::vector<std::string> devices) {
    std::ranges::sort(devices);
    const auto rest = std::ranges::unique(devices);
    devices.erase(rest.begin(), rest.end());
    return devices;
}

/// Writes the page of a run that has failed, as far as it went: only warns if that fails too.
void write_report_of_failed(const std::filesystem::path& folder) {
    try {
        const std::string page = write_report(folder.string(), nullptr);
        try_to([&] { fmt::print("report: {}\n", page); });
    } catch (const std::exception& error) {
        spdlog::warn("no report is written: {}", as_printable(error.what()));
    }
}

/// The same devices as a run of several ranks calls them, without the ranks.
std::vector<DeviceRecord> without_ranks(std::span<const DeviceRecord> devices) {
    std::vector<DeviceRecord> its(devices.begin(), devices.end());
    for (DeviceRecord& device : its) device.id = device_of(device.id);
    return its;
}

/// This machine, whose devices are listed once.
Machine this_machine() {
    const auto kept = std::make_shared<std::vector<Backend::Listing>>();
    const auto lister = [kept](const OpenOptions& open) -> ListDevices {
        return [kept, open]() -> std::span<const Backend::Listing> {
            if (kept->empty()) *kept = list_devices(open);
            return *kept;
        };
    };
    return {
        .select = [=](const std::string& backend, const std::string& towers,
                      const OpenOptions& open) { return choose_towers(backend, towers, lister(open)); },
        .find = [=](std::span<const DeviceRecord> before,
                    const OpenOptions& open) { return find_devices(without_ranks(before), lister(open)); }};
}

/// The machines of all ranks, seen from the first.
Machine machines_of(Ranks& ranks, const TrainFlags& flags) {
    const auto kept = std::make_shared<std::vector<std::string>>(); // the others tell it once
    return {.select =
                [&ranks, &flags, kept](const std::string& backend, const std::string& towers,
                                       const OpenOptions& open) {
                    if (kept->empty())
                        *kept = ranks.gather_towers(ranks.own_towers(backend, towers, open),
                                                    common_lines(given_by(flags)));
                    return *kept;
                },
            .find = [](std::span<const DeviceRecord> before, const OpenOptions&) -> FoundAgain {
                return {ids_of(before), ""};
            }};
}

/// Says what of the model of --init does not begin as in that file.
void print_beginning(const Beginning& beginning, const DataSource& data) {
    try_to([&] { print_new_layers(beginning); });
    const std::string other = other_classes(data.info().classes, beginning.classes, beginning.path.string());
    if (!other.empty() && beginning.new_layers.empty())
        try_to([&other] {
            fmt::print("{}; the last layer begins with the weights of the classes there\n", other);
        });
}

/// Says what it measures, if that is to be shown.
std::shared_ptr<Tuning> make_tuning(const std::optional<TuningOptions>& options, bool shows_progress) {
    if (!options) return nullptr;
    TuningOptions shown = *options;
    if (shows_progress)
        shown.progress = [](const std::string& line) { try_to([&line] { show_progress(line); }); };
    return std::make_shared<Tuning>(std::move(shown));
}

/// A training from its flags to its last line. What it has found out and made remains here when it fails.
class Training {
public:
    /// `ranks`: of the run, of which this process is the first; null: it is the only one.
    Training(const TrainFlags& flags, Ranks* ranks)
        : flags_(flags), ranks_(ranks), machine_(ranks ? machines_of(*ranks, flags) : this_machine()),
          inputs_(read_inputs(flags, machine_)), trace_(make_trace(flags)) {}

    /// Trains. Every device is closed afterwards, also if this throws.
    void run() {
        if (ranks_ != nullptr && ranks_->left()) print_lost();
        try {
            resolved_ = resolve(flags_, inputs_, machine_);
            if (ranks_ != nullptr) {
                resolved_->open.threads = ranks_->threads_for(resolved_->open.threads);
                if (traces()) resolved_->traced_steps = trace_.trace->most_steps();
                ranks_->tell_run(*resolved_);
                if (rounds() && std::ranges::count(ranks_->world().hosts(), 0u) == ranks_->world().size())
                    spdlog::warn("--wire {} changes nothing among ranks of one host, which exchange float32",
                                 resolved_->settings.wire);
            } else if (rounds()) {
                spdlog::warn("--wire {} changes nothing in a run of one process, which sends no gradients",
                             resolved_->settings.wire);
            }
            open_and_train();
            if (ranks_ != nullptr && traces()) ranks_->gather_traces(*trace_.trace);
            if (ranks_ != nullptr) ranks_->when_gone(nullptr, nullptr);
            directory_.reset();
        } catch (const PeerGone&) { // the ranks that are left go on, in another Training
            if (terminal_) terminal_->finish();
            ranks_->when_gone(nullptr, nullptr);
            directory_.reset();
            throw;
        } catch (const DeviceError& error) {
            start_over_without(error); // else the run that has not begun would be reported
            write_what_is_there();
            throw;
        } catch (...) {
            write_what_is_there();
            throw;
        }
    }

    /// Prints and writes what flags ask for after the run.
    void report() const {
        if (flags_.log_placement) fmt::print("{}", placement_times(placement_, *trace_.trace));
        if (!trace_.path.empty()) fmt::print("{}", write_trace(trace_));
        if (!flags_.report) return;
        const PredictionOptions options{.towers = without_repeats(towers_here()), .open = resolved_->open};
        // A tower that hangs may keep its device.
        fmt::print("report: {}\n", write_report(folder_.string(), any_driver_hangs() ? nullptr : &options));
    }

private:
    bool rounds() const { return parse_wire(resolved_->settings.wire) != Wire::fp32; }
    bool traces() const { return !trace_.path.empty(); }
    void open_and_train();
    TrainerOptions trainer_options();
    std::vector<std::string> towers_here() const;
    void print_lost() const;
    void open_directory();
    CheckpointOrigin origin_of(const DataSource& data) const;
    void resume_past(Trainer& trainer, const CheckpointOrigin& origin) const;
    void train_and_report(const OpenRun& run);
    void write_what_is_there();
    [[noreturn]] void give_up(const DeviceError& error);

    const TrainFlags& flags_;
    Ranks* ranks_;
    Machine machine_;
    RunInputs inputs_;
    TraceFile trace_;
    std::optional<ResolvedRun> resolved_;
    std::optional<RunDirectory> directory_; ///< from the run's begin to its end, which unlocks it
    std::filesystem::path folder_;          ///< its path, once the run has begun
    std::optional<Terminal> terminal_;      ///< once its steps begin
    PlacementLog placement_;                ///< for --log-placement
};

/// Ends a program whose only tower hangs.
void Training::give_up(const DeviceError& error) {
    start_over_without(error);
    if (terminal_) terminal_->finish();
    write_trace_of_failed(trace_);
    end_at_once(towers::report(work_failed, error.what() + (directory_ ? way_on(*directory_) : "")));
}

void Training::write_what_is_there() {
    if (ranks_ != nullptr) ranks_->when_gone(nullptr, nullptr); // it uses the directory
    if (terminal_) terminal_->finish();
    write_trace_of_failed(trace_);
    directory_.reset();
    if (flags_.report && !folder_.empty()) write_report_of_failed(folder_);
}

/// The devices of this process.
std::vector<std::string> Training::towers_here() const {
    if (ranks_ == nullptr) return resolved_->towers;
    std::vector<std::string> its;
    for (std::size_t i = 0; i < ranks_->towers().counts[0]; ++i)
        its.push_back(device_of(resolved_->towers[i]));
    return its;
}

void Training::print_lost() const {
    const unsigned ranks = ranks_->world().size();
    const Past& past = *inputs_.past;
    const std::string& shares = past.latest.settings.shares;
    spdlog::warn("{}; {} {} on from {}{}", ranks_->left()->lost, count_of(ranks, "rank"),
                 ranks == 1 ? "goes" : "go", past.checkpoint.path.string(),
                 fits_any_towers(shares)
                     ? ""
                     : fmt::format(", with automatic shares, since '{}' are of all ranks", shares));
}

/// What rank 0 and those that follow it have in common.
TrainerOptions trainer_options_of(const ResolvedRun& run, Ranks* ranks) {
    const TrainSettings& settings = run.settings;
    OpenOptions open = run.open;
    open.stop = &own_orders.stop;
    std::optional<TrainerOptions::Ranks> of_ranks;
    if (ranks != nullptr)
        of_ranks.emplace(TrainerOptions::Ranks{
            ranks->world().courier(), ranks->towers(), {parse_wire(settings.wire), ranks->world().hosts()}});
    return {.towers = run.towers,
            .global_batch = run.global_batch,
            .shares = run.shares,
            .micro_batch = settings.micro_batch.value_or(0),
            .outlive_devices = settings.on_device_loss == "continue",
            .patience = Patience(run.open.timeout, {}, &own_orders.stop),
            .learning_rate = *settings.lr,
            .seed = *settings.seed,
            .distort = settings.distort,
            .shuffle = settings.shuffle,
            .feed = {parse_feeding(settings.feed), settings.readers.value_or(0)},
            .quirks = run.quirks,
            .open = open,
            .ranks = of_ranks};
}

TrainerOptions Training::trainer_options() {
    TrainerOptions options = trainer_options_of(*resolved_, ranks_);
    options.give_up = [this](const DeviceError& error) { give_up(error); };
    options.tuning = make_tuning(resolved_->tuning, flags_.progress != "log");
    options.trace = trace_.trace;
    return options;
}

/// The run begins here: this may delete an earlier one, so it comes after everything that the run needs has
/// been found.
void Training::open_directory() {
    work_begins();
    directory_.emplace(resolved_->folder.empty() ? make_run_directory(resolved_->recipe.name)
                                                 : std::filesystem::path(resolved_->folder),
                       resolved_->existing);
    folder_ = directory_->path();
    work_begins(
        fmt::format("; go on from the last checkpoint in {} with --resume", directory_->path().string()));
    if (ranks_ != nullptr)
        ranks_->when_gone(
            [this] {
                if (terminal_) terminal_->finish();
            },
            [this] { return way_on(*directory_); });
}

CheckpointOrigin Training::origin_of(const DataSource& data) const {
    return {resolved_->recipe.name,
            *resolved_->settings.seed,
            data.size(),
            data.checksum(),
            write_settings(resolved_->settings, Settings::of_training),
            resolved_->recipe.checksum,
            data.info().classes,
            data.info().converted_from.value_or(data.image_size())};
}

void Training::resume_past(Trainer& trainer, const CheckpointOrigin& origin) const {
    const FoundCheckpoint checkpoint = find_checkpoint(directory_->path(), flags_.resume_from);
    // The folder was not locked when it was found first.
    if (checkpoint.path != inputs_.past->checkpoint.path)
        throw InputError(fmt::format("{}: another program continued this run in the meantime; try again",
                                     directory_->path().string()));
    resume(trainer, resolved_->recipe, checkpoint, origin);
}

void Training::open_and_train() {
    const std::optional<Past>& past = inputs_.past;
    const Recipe& recipe = resolved_->recipe;
    TrainSettings settings = resolved_->settings;
    if (past && !flags_.settings.gives("data")) check_still_there(settings.data, "--data");
    if (past && !flags_.settings.gives("test-data")) check_still_there(settings.test_data, "--test-data");
    const std::unique_ptr<DataSource> data =
        open_data_for(recipe, data_request(settings, Split::train, *settings.seed));
    std::shared_ptr<const DataSource> tests;
    bool has_tests = true;
    if (settings.eval_every > 0)
        tests = open_tests(settings, recipe, *data);
    else
        has_tests = check_test_data(settings, recipe, *data);
    const bool has_label_sets = (tests ? *tests : *data).label_sets() != nullptr;
    judge_by_labels(settings, recipe, has_label_sets);
    if (ranks_ != nullptr) ranks_->compare_data(*data, tests.get());
    Trainer trainer(recipe, trainer_options(), *data, tests);
    tests.reset(); // towers that stream them keep them
    print_class_weights(recipe, *data);
    if (!settings.init.empty() && !past) {
        const Beginning beginning =
            read_initial(settings.init, recipe.model, trainer.layout(), *settings.seed);
        trainer.load(beginning.state);
        print_beginning(beginning, *data);
    }
    open_directory();
    const CheckpointOrigin origin = origin_of(*data);
    if (past) resume_past(trainer, origin);
    if (settings.epochs) settings.steps = trainer.steps_until(*settings.epochs);
    settings.epochs.reset();
    const OpenRun run{.resolved = *resolved_,
                      .past = past,
                      .settings = settings,
                      .loop = {.steps = *settings.steps,
                               .save_every = settings.save_every,
                               .keep = settings.keep,
                               .log_every = settings.log_every,
                               .origin = origin,
                               .global_batch = resolved_->global_batch,
                               .data = data.get(),
                               .tests = {.every = settings.eval_every,
                                         .raw = settings.eval_raw,
                                         .scores = settings.eval_auc || has_label_sets,
                                         .best_by = &best_by(settings),
                                         .keep_best = settings.keep_best,
                                         .stop_early = settings.stop_early}},
                      .trainer = trainer,
                      .directory = *directory_,
                      .has_tests = has_tests};
    if (!is_done(run)) train_and_report(run);
}

/// Trains from the state that the trainer has.
void Training::train_and_report(const OpenRun& run) {
    const auto& [resolved, past, settings, loop, trainer, directory, has_tests] = run;
    const auto replaced = past ? rewind(directory, trainer) : std::nullopt;
    if (!past) save_checkpoint(trainer, directory, loop);
    directory.write_recipe(resolved.recipe.text);
    const std::string config = "# The settings of this run; 'towers train --config' accepts this file.\n" +
                               write_settings(settings, Settings::all);
    directory.write_config(config);
    if (ranks_ != nullptr) ranks_->can_go_on(directory.path());

    stop_on_signals();
    try_to([&run] {
        compare_classes(run.resolved.recipe, run.loop.data->info(), run.settings.data, run.past.has_value());
    });
    const std::string probed = probe(trainer, directory, own_orders.stop);
    const std::string tuned = tune(trainer, directory, own_orders.stop);
    try_to([this, &run, &probed, &tuned, &replaced] {
        if (!flags_.log_placement) print_towers(run.trainer); // else its tables begin with them
        for (const std::string& note : run.resolved.notes) fmt::print("{}\n", note);
        print_frozen(run.resolved.recipe.model);
        for (const std::string& line : {probed, tuned})
            if (!line.empty()) fmt::print("{}\n", line);
        if (flags_.log_placement)
            fmt::print("{}", placement_text(placement_log(run.trainer, run.trainer.shares())));
        if (!run.past) return;
        fmt::print("resumed at step {}\n", run.trainer.steps_done());
        print_changes(*run.past, run.settings, run.loop.global_batch, circumstances_of(run.trainer));
        if (replaced)
            fmt::print("moved later checkpoints and a copy of the metrics to {}\n", replaced->string());
    });
    std::fflush(stdout);

    const bool live = flags_.progress == "live" || (flags_.progress == "auto" && isatty(STDOUT_FILENO) == 1);
    terminal_.emplace(trainer, ProgressOptions{.live = live,
                                               .log_towers = settings.log_towers,
                                               .divided_batch_time = resolved.quirks.divided_batch_time,
                                               .steps = loop.steps,
                                               .best_by = loop.tests.best_by});
    Metrics metrics(directory, loop.origin.records);
    std::optional<Events> events;
    Times times(directory, trainer, past.has_value());
    std::vector<Observer*> observers{&metrics, &times, &*terminal_};
    if (settings.summary_every > 0)
        observers.insert(observers.begin() + 1,
                         &events.emplace(trainer, *loop.data, directory, settings.summary_every));
    const Ended ended = train(trainer, directory, loop, own_orders.stop, observers);

    if (flags_.log_placement) placement_ = placement_log(trainer, trainer.last_shares());
    if (ended.how == Ending::early)
        try_to([&ended, &run] {
            fmt::print("stopped early: {}\n", why_early(ended.tests, *run.loop.tests.best_by));
        });
    const std::string saved = fmt::format("{}: saved {}", ended.how == Ending::stopped ? "stopped" : "done",
                                          directory.checkpoint_path(trainer.steps_done()).string());
    if (settings.shares == "auto") {
        try {
            directory.write_config(fmt::format("{}# The shares of the last step: {}\n", config,
                                               to_string(trainer.last_shares())));
        } catch (const InputError& error) {
            throw InputError(fmt::format("{}; {}", error.what(), saved));
        }
    }
    report_end(run, saved, ended.how);
}

/// The part of a rank that is not the first.
void follow(const TrainFlags& flags, Ranks& ranks) {
    ranks.when_gone(nullptr, [] { // this rank speaks if the first one is lost
        return std::string("; go on from the last checkpoint in its run directory with --resume");
    });
    stop_on_signals();
    const Given given = given_by(flags);
    TrainSettings own;
    replace(own, given);
    ranks.tell_towers(ranks.own_towers(own.backend, own.towers, flags.open), common_lines(given));
    ResolvedRun run = ranks.receive_run(given, flags.open);
    const std::unique_ptr<DataSource> data =
        open_data_for(run.recipe, data_request(run.settings, Split::train, *run.settings.seed));
    std::shared_ptr<const DataSource> tests;
    if (run.settings.eval_every > 0) tests = open_tests(run.settings, run.recipe, *data);
    ranks.compare_data(*data, tests.get());
    TrainerOptions options = trainer_options_of(run, &ranks);
    options.tuning = make_tuning(run.tuning, false);
    if (run.traced_steps > 0) options.trace = std::make_shared<Trace>(run.traced_steps);
    Trainer(run.recipe, options, *data, tests).follow(&own_orders.stop);
    if (options.trace) ranks.send_trace(*options.trace);
    ranks.receive(); // the end
}

int run_train(const TrainFlags& flags) {
    stop_on_signals({SIGUSR2}); // a batch system may send it while ranks still meet or data is opened
    const auto flags_of = [&flags](const Ranks& ranks) {
        return ranks.left() ? flags_to_go_on(flags, *ranks.left()) : flags;
    };
    const auto lead = [&](Ranks* ranks) {
        const TrainFlags its = ranks != nullptr ? flags_of(*ranks) : flags;
        Training training(its, ranks);
        training.run();
        training.report();
        return 0;
    };
    return run_on_ranks(
        lead, [&](Ranks& ranks) { follow(flags_of(ranks), ranks); }, &own_orders);
}

} // namespace

void add_train(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("train", "Train a model");
    const auto flags = std::make_shared<TrainFlags>();
    add_train_flags(*command, *flags);
    command->callback([flags, command, &chosen] {
        chosen = [flags, command] {
            flags->settings.names = given_settings(*command);
            return run_train(*flags);
        };
    });
}

} // namespace towers
