#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/data_flags.h"
#include "apps/towers/eval_flags.h"
#include "apps/towers/eval_report.h"
#include "apps/towers/model_on_ranks.h"
#include "apps/towers/progress.h"
#include "apps/towers/ranks.h"
#include "apps/towers/settings.h"
#include "apps/towers/start_over.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "engine/data/formats.h"
#include "engine/files/output.h"
#include "engine/files/text.h"
#include "engine/inference/evaluation.h"
#include "engine/inference/metric.h"
#include "engine/inference/multilabel_report.h"
#include "engine/inference/thresholds.h"
#include "engine/ranks/message.h"
#include "engine/recipes/quirks.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/run/run_directory.h"
#include "engine/run/test_record.h"
#include "engine/train/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <spdlog/spdlog.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace towers {
namespace {

Recipe recipe_of(const TrainSettings& settings, const std::filesystem::path& checkpoint,
                 const EvalFlags& flags) {
    return recipe_of_checkpoint(settings, checkpoint, !flags.recipe.empty() || !flags.set.empty());
}

/// The settings with --data as the training's data if these have moved there, else none.
std::optional<TrainSettings> with_moved_data(TrainSettings settings, const TensorFile& file,
                                             const std::filesystem::path& path, const EvalFlags& flags) {
    if (!is_gone(settings.data) || !file.metadata.contains("checksum")) return std::nullopt;
    std::string moved = absolute_source(flags.data);
    if (without_options(moved) == moved)
        moved += settings.data.substr(without_options(settings.data).size()); // the training's
    settings.data = moved;
    try {
        const DataRequest request =
            data_request(settings, Split::train, checkpoint_number(file, "seed", path));
        const std::uint64_t trained = checkpoint_number(file, "checksum", path);
        if (open_data_for(recipe_of(settings, path, flags), request)->checksum() == trained) return settings;
    } catch (const InputError&) { // other data
    }
    return std::nullopt;
}

/// The training settings that evaluation needs, from the flags, else from the checkpoint, else from its run.
TrainSettings settings_of(const FoundCheckpoint& checkpoint, const EvalFlags& flags) {
    const auto& [path, file] = checkpoint;
    TrainSettings settings = settings_of_checkpoint(checkpoint, flags.model, flags.recipe, flags.set);
    // The pictures that a run holds out are its test examples, also if its folder is named again.
    bool held_out = held_out_by(settings.hold_out, settings.fold).any() && !flags.data.empty();
    if (held_out && without_options(absolute_source(flags.data)) != without_options(settings.data)) {
        const std::optional<TrainSettings> moved = with_moved_data(settings, file, path, flags);
        held_out = moved.has_value();
        if (held_out) settings = *moved;
    }
    if (!flags.data.empty() && !held_out) {
        // Test data have the classes of the data that the checkpoint was trained on.
        const bool testing = flags.split == "test" && !settings.data.empty();
        settings.test_data = testing ? flags.data : "";
        if (!testing) settings.data = flags.data;
        settings.format.clear();
        settings.hold_out.clear();
        settings.fold.clear();
    }
    if (!flags.format.empty()) settings.format = flags.format;
    if (flags.skip_broken) settings.skip_broken = true;
    if (!flags.quirks.empty()) settings.quirks = flags.quirks;
    if (settings.data.empty())
        throw UsageError(fmt::format("--data: {} does not say what it was trained on; give the data to "
                                     "evaluate it on",
                                     path.string()));
    if (flags.data.empty())
        check_still_there(flags.split == "test" && !settings.test_data.empty() ? settings.test_data
                                                                               : settings.data,
                          "--data");
    return settings;
}

/// Why the run ends with the checkpoint of this step; empty if it goes on, or if its folder does not tell.
std::string why_ended(const std::string& run, std::uint64_t step) {
    const std::filesystem::path config = config_path_in(run);
    TrainSettings settings;
    if (std::filesystem::exists(config)) replace(settings, read_settings(config));
    if (settings.steps && step >= *settings.steps)
        return fmt::format("the run has taken all its steps, {}", *settings.steps);
    if (settings.stop_early > 0 &&
        TestRecord::read(metrics_path_in(run), step).since_best(best_by(settings)) >= settings.stop_early)
        return "the run has stopped early";
    return "";
}

bool has_checkpoint(const std::string& run) {
    std::error_code error;
    return std::filesystem::exists(run, error) && !checkpoint_steps(run).empty();
}

/// The data set on the devices.
struct LoadedData {
    OpenOptions open;                 ///< of the devices
    std::unique_ptr<DataSource> data; ///< which evaluators may stream
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Evaluator> evaluators; ///< one on each of the devices, which outlive them
    std::vector<std::uint32_t> labels; ///< as classes of the network, by record
    std::vector<std::string> names;    ///< of the network's classes
    unsigned scores = 0;               ///< classes whose scores are kept; 0: none are
    Model model;                       ///< the network
    std::vector<double> thresholds;    ///< of the data's classes, if examples may have several labels
};

/// `scores`: are needed. `ranks`: of which each has its own data and devices; null: there is one process.
LoadedData load_data(const ModelOnRanks& model, const DataRequest& request, bool scores,
                     const std::vector<std::string>& towers, Ranks* ranks) {
    const auto& [recipe, open, batch] = model;
    LoadedData loaded{.open = open, .data = open_data_for(recipe, request)};
    const DataSource& data = *loaded.data;
    if (ranks != nullptr) ranks->compare_data(data, nullptr);
    for (const std::string& id : towers) {
        loaded.devices.push_back(open_device(id, open));
        loaded.evaluators.emplace_back(*loaded.devices.back(), recipe, data, batch);
    }
    for (const std::uint32_t label : data.labels())
        loaded.labels.push_back(label + recipe.model.label_offset);
    loaded.names = class_names(recipe.model, data.info().classes);
    loaded.model = recipe.model;
    if (scores || data.label_sets() != nullptr) loaded.scores = recipe.model.classes;
    return loaded;
}

/// What rank 0 asks of its data, for the others.
nlohmann::json to_message(const DataRequest& request) {
    return {{"source", request.source},   {"testing", request.split == Split::test},
            {"seed", request.seed},       {"whole", request.whole},
            {"format", request.format},   {"held_out", {request.held_out.begin, request.held_out.end}},
            {"trained", request.trained}, {"skip_broken", request.skip_broken}};
}

/// Another rank's request, by its own flags.
DataRequest request_in(const nlohmann::json& message, const EvalFlags& flags) {
    DataRequest request{.source = message["source"],
                        .split = message["testing"] ? Split::test : Split::train,
                        .seed = message["seed"]};
    request.whole = message["whole"];
    request.format = flags.format.empty() ? message["format"].get<std::string>() : flags.format;
    request.held_out = {message["held_out"][0], message["held_out"][1]};
    request.trained = message["trained"];
    request.skip_broken = message["skip_broken"];
    if (flags.data.empty()) return request;
    const std::string options = request.source.substr(without_options(request.source).size());
    request.source = flags.data + (without_options(flags.data) == flags.data ? options : "");
    return request;
}

/// Puts the predictions of other ranks' batches in their places.
void gather(const PredictionSpan& predictions, Ranks& ranks, unsigned batch) {
    for (unsigned rank = 1; rank < ranks.world().size(); ++rank) {
        const Bytes message = ranks.world().courier().receive(rank, Topic::answer);
        Reader reader(message);
        dealing_of(ranks, rank)
            .for_each(predictions.each.size(), batch, [&](std::uint64_t begin, std::uint64_t end) {
                const PredictionSpan place = predictions.part(begin, end - begin);
                std::ranges::copy(reader.get<Prediction>(place.each.size()), place.each.begin());
                std::ranges::copy(reader.get<float>(place.scores.size()), place.scores.begin());
            });
    }
}

/// The part of a rank that is not the first: evaluates what rank 0 says, until it has ended.
void follow(EvalFlags& flags, Ranks& ranks) {
    const std::vector<std::string> towers =
        take_devices(&ranks, flags.backend, flags.towers, flags.open, flags.common_lines);
    std::optional<LoadedData> loaded;
    for (nlohmann::json order; !(order = ranks.receive()).is_null();) {
        if (order.contains("model")) {
            loaded.reset();
            loaded = load_data(model_in(order["model"], flags.open), request_in(order["data"], flags),
                               order["scores"], towers, &ranks);
        }
        Predictions predictions =
            evaluate(loaded->evaluators, receive_variables(ranks), own_dealing(ranks), loaded->scores);
        Writer message;
        own_dealing(ranks).for_each(predictions.each.size(), loaded->evaluators[0].batch(),
                                    [&](std::uint64_t begin, std::uint64_t end) {
                                        const PredictionSpan part =
                                            predictions.all().part(begin, end - begin);
                                        message.put(std::span<const Prediction>(part.each));
                                        message.put(std::span<const float>(part.scores));
                                    });
        ranks.world().courier().send(0, Topic::answer, message.take());
    }
}

/// Uses the training's seed, to draw the same shapes, and its classes.
DataRequest request_of(const TrainSettings& settings, const FoundCheckpoint& checkpoint, const Recipe& recipe,
                       const EvalFlags& flags) {
    const auto& [path, file] = checkpoint;
    const Split split = flags.split == "test" ? Split::test : Split::train;
    DataRequest request =
        data_request(settings, split, checkpoint_number(file, "seed", path), known_classes(file));
    request.whole = request.whole || !flags.data.empty();
    if (!request.trained.empty() || settings.test_data.empty()) return request;
    // An early version's
    if (const auto trained = trained_on(file, path, settings, recipe))
        request.trained = trained->classes;
    else
        spdlog::warn("{} cannot be read any more, so its classes cannot be compared with those of {}",
                     as_printable(settings.data), as_printable(settings.test_data));
    return request;
}

/// Whether the flags fit examples that have one label each, or may have several; reads the thresholds.
void check_labels(LoadedData& loaded, const EvalFlags& flags) {
    if (loaded.data->label_sets() == nullptr) {
        for (const auto& [flag, given] : {std::pair{"--threshold", !flags.threshold.empty()},
                                          {"--best-thresholds", !flags.best_thresholds.empty()}})
            if (given)
                throw UsageError(fmt::format("{}: each example of {} has one label; leave it out", flag,
                                             as_printable(loaded.data->info().name)));
        return;
    }
    if (flags.top) throw UsageError("--top: the examples may have several labels; leave it out");
    if (!flags.confusion.empty() && std::filesystem::path(flags.confusion).extension() == ".png")
        throw UsageError(
            fmt::format("--confusion {}: the examples may have several labels, of which there is no "
                        "picture; give a file whose name ends in .csv",
                        flags.confusion));
    loaded.thresholds = read_thresholds(flags.threshold, loaded.data->info().classes);
}

/// `threshold 0.5`
std::string thresholds_text(const std::string& threshold) {
    if (threshold.empty()) return fmt::format("threshold {}", usual_threshold);
    return (threshold.find_first_not_of("0123456789.") == threshold.npos ? "threshold " : "thresholds of ") +
           threshold;
}

/// What is shown of the checkpoint.
struct Parameters {
    std::filesystem::path path;
    std::uint64_t step;
    bool averaged;
};

[[noreturn]] void refuse_diverged(const Parameters& of, double cross_entropy) {
    throw InputError(fmt::format("{}: its cross entropy is {} because the model has diverged; evaluate an "
                                 "earlier checkpoint",
                                 of.path.string(), std::isnan(cross_entropy) ? "NaN" : "infinite"));
}

const char* variables_of(const Parameters& of) {
    return of.averaged ? "moving averages of the variables" : "the variables themselves";
}

/// Adds the metrics and what was evaluated, and writes the file.
void write_json(nlohmann::json json, const MetricSource& source, const LoadedData& loaded,
                const Parameters& of, const EvalFlags& flags, std::FILE* text) {
    const MetricValues values = values_of_metrics(source);
    for (const Metric& metric : all_metrics()) {
        const auto value = values.find(metric.name);
        json[metric.name] = value != values.end() ? nlohmann::json(value->second) : nlohmann::json();
    }
    json["checkpoint"] = as_utf8(of.path.string());
    json["step"] = of.step;
    json["averaged"] = of.averaged;
    json["data"] = as_utf8(loaded.data->info().name);
    json["split"] = flags.split;
    json["examples"] = source.evaluation.examples;
    json["labels"] = source.has_label_sets ? "several" : "one";
    write_output(flags.json, json.dump(1) + '\n');
    if (!is_standard_output(flags.json)) fmt::print(text, "wrote all metrics to {}\n", flags.json);
}

/// Where examples may have several labels.
void show_labels(const LoadedData& loaded, const Predictions& predictions, const Parameters& of,
                 const EvalFlags& flags) {
    const LabelSets& sets = *loaded.data->label_sets();
    const SigmoidScores scores = scores_of(predictions.scores, loaded.model);
    const Evaluation result = sum_up(predictions.each);
    if (!std::isfinite(result.cross_entropy())) refuse_diverged(of, result.cross_entropy());
    const std::vector<std::string>& names = loaded.data->info().classes;
    const MultilabelReport report(sets, scores, loaded.thresholds);
    std::FILE* const text = text_stream({flags.confusion, flags.json, flags.best_thresholds});
    const auto figure = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.3f}", *value) : "none";
    };
    fmt::print(text, "{}: mean average precision = {}\n", timestamp(),
               figure(report.average_precision.macro));
    fmt::print(text, "{} of {} examples have exactly the labels found, cross entropy {:.3f}, step {}, {}\n",
               report.exact, report.examples, result.cross_entropy(), of.step, variables_of(of));
    fmt::print(text, "macro F1 {}, micro F1 {}, subset accuracy {:.3f}, Hamming loss {:.3f}; {}\n",
               figure(report.f1.macro), figure(report.f1.micro), report.subset_accuracy(),
               report.hamming_loss(), thresholds_text(flags.threshold));
    if (flags.per_class) fmt::print(text, "{}", class_table(report, names));
    if (!flags.confusion.empty()) {
        write_output(flags.confusion, confusion_csv(report, names));
        if (flags.confusion != "-")
            fmt::print(text, "wrote how often each class is found and missed to {}\n", flags.confusion);
    }
    if (!flags.best_thresholds.empty()) {
        const std::vector<double> best = best_thresholds(sets, scores, unsigned(names.size()));
        const MultilabelReport at_best(sets, scores, best);
        write_thresholds(flags.best_thresholds, best, names);
        fmt::print(text, "macro F1 {}, micro F1 {} with the thresholds that are best here{}\n",
                   figure(at_best.f1.macro), figure(at_best.f1.micro),
                   is_standard_output(flags.best_thresholds) ? "" : ", written to " + flags.best_thresholds);
    }
    if (!flags.json.empty()) {
        nlohmann::json json = to_json(report, names, loaded.model.label_offset);
        json["correct"] = report.exact;
        json["top_k"] = nullptr;
        write_json(std::move(json), {result, nullptr, loaded.model.classes, true, &report}, loaded, of, flags,
                   text);
    }
    std::fflush(text);
}

void show(const LoadedData& loaded, const Predictions& predictions, const Parameters& of, bool padded,
          const EvalFlags& flags) {
    if (loaded.data->label_sets() != nullptr) return show_labels(loaded, predictions, of, flags);
    const std::uint64_t batch = loaded.evaluators[0].batch(), records = predictions.each.size();
    const std::uint64_t count = padded ? (records + batch - 1) / batch * batch : records;
    const Evaluation result = sum_up(predictions.each, count);
    if (!std::isfinite(result.cross_entropy())) refuse_diverged(of, result.cross_entropy());
    const auto classes = unsigned(loaded.names.size());
    const Evaluation top = sum_up(predictions.each, count, flags.top.value_or(few_classes));
    const ClassificationReport report(loaded.labels, predictions, classes, loaded.model.heads[0]);
    std::FILE* const text = text_stream({flags.confusion, flags.json});
    fmt::print(text, "{}: precision @ 1 = {:.3f}\n", timestamp(), result.accuracy());
    fmt::print(text, "{} of {} examples, cross entropy {:.3f}, step {}, {}\n", result.correct,
               result.examples, result.cross_entropy(), of.step, variables_of(of));
    if (flags.top || classes > few_classes)
        fmt::print(text, "precision @ {} = {:.3f}, {} of {} examples\n", top.few, top.accuracy_in_few(),
                   top.correct_in_few, top.examples);
    fmt::print(text, "balanced accuracy {:.3f}, macro F1 {:.3f}, calibration error {:.3f}\n",
               *report.balanced_accuracy, *report.f1.macro, report.calibration_error);
    if (flags.per_class) fmt::print(text, "{}", class_table(report, loaded.names));
    if (!flags.confusion.empty()) {
        write_confusion(flags.confusion, report.confusion, loaded.names);
        if (flags.confusion != "-")
            fmt::print(text, "wrote which classes are taken for which to {}\n", flags.confusion);
    }
    if (!flags.json.empty()) {
        nlohmann::json json = to_json(report, loaded.names);
        json["correct"] = result.correct;
        json["top_k"] = {
            {"k", top.few}, {"correct", top.correct_in_few}, {"accuracy", top.accuracy_in_few()}};
        write_json(std::move(json), {result, &report, classes}, loaded, of, flags, text);
    }
    std::fflush(text);
}

/// The predictions of all records.
Predictions evaluate_on(LoadedData& loaded, std::span<const float> variables, Ranks* ranks) {
    if (ranks == nullptr) return evaluate(loaded.evaluators, variables, loaded.scores);
    send_variables(*ranks, variables);
    Predictions predictions = evaluate(loaded.evaluators, variables, own_dealing(*ranks), loaded.scores);
    gather(predictions.all(), *ranks, loaded.evaluators[0].batch());
    return predictions;
}

/// `ranks`: of which this process is the first; null: it is the only one.
int lead(EvalFlags& flags, Ranks* ranks) {
    check(flags);
    if (!flags.recipe.empty()) find_recipe(flags.recipe, flags.set);
    if (!flags.quirks.empty()) parse_quirks(flags.quirks);
    // Before reading or waiting for anything
    const std::vector<std::string> towers =
        take_devices(ranks, flags.backend, flags.towers, flags.open, flags.common_lines);

    std::optional<LoadedData> loaded;
    bool waiting = false;
    for (std::filesystem::path evaluated;;) {
        std::optional<FoundCheckpoint> found; // set if it is not evaluated yet
        if (flags.interval == 0) {
            found = read_model(flags.model);
        } else if (has_checkpoint(flags.model)) {
            read_latest(flags.model, [&](const std::filesystem::path& latest) {
                if (latest != evaluated) found = {latest, read_safetensors(latest)};
            });
        } else {
            std::error_code error;
            if (!std::exchange(waiting, true))
                fmt::print("waiting for the first checkpoint in {}{}\n", flags.model,
                           std::filesystem::exists(flags.model, error) ? "" : ", which is not there yet");
            std::fflush(stdout);
        }
        if (found) {
            const auto& [path, file] = *found;
            evaluated = path;
            const TrainSettings settings = settings_of(*found, flags);
            const Recipe recipe = recipe_of(settings, path, flags);
            check_recipe(file, recipe, path);
            if (flags.top > recipe.model.classes)
                throw UsageError(
                    fmt::format("--top {}: the network tells {} classes apart; give at most so many",
                                *flags.top, recipe.model.classes));
            if (!flags.threshold.empty()) check_threshold(recipe);
            if (!flags.best_thresholds.empty()) check_threshold(recipe, "--best-thresholds");
            const StateLayout layout = layout_of(recipe);
            const TrainingState state = from_checkpoint(file, layout, path);
            const bool averaged = !flags.raw && layout.averages() != nullptr;
            OpenOptions open = flags.open;
            choose_precision(open, flags.products, precision_in(settings), recipe);
            if (loaded && (open.precision != loaded->open.precision ||
                           open.round_operands != loaded->open.round_operands))
                loaded.reset(); // the run has gone on with another one
            if (!loaded) {
                const ModelOnRanks model{recipe, open, flags.batch};
                const DataRequest request = request_of(settings, *found, recipe, flags);
                if (ranks != nullptr)
                    ranks->tell({{"model", to_message(model)},
                                 {"data", to_message(request)},
                                 {"scores", flags.need_scores()}});
                loaded = load_data(model, request, flags.need_scores(), towers, ranks);
                check_labels(*loaded, flags);
                work_begins();
                const std::string other =
                    other_classes(loaded->data->info().classes, known_classes(file), path.string());
                if (!other.empty()) spdlog::warn("{}; are these the right data?", other);
            } else if (ranks != nullptr)
                ranks->tell(nlohmann::json::object());
            const auto variables =
                part(std::span(state.state), averaged ? layout.averages()->range : layout.all_variables());
            const Predictions predictions = evaluate_on(*loaded, variables, ranks);
            show(*loaded, predictions, {path, state.step, averaged},
                 parse_quirks(settings.quirks).padded_evaluation, flags);
            const std::string ended = flags.interval > 0 ? why_ended(flags.model, state.step) : "";
            if (!ended.empty()) {
                fmt::print("{}: there will be no newer checkpoint\n", ended);
                return 0;
            }
        }
        if (flags.interval == 0) return 0;
        std::this_thread::sleep_for(std::chrono::seconds(flags.interval));
    }
}

} // namespace

void add_eval(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("eval", "Measure the accuracy of a checkpoint");
    const auto flags = std::make_shared<EvalFlags>();
    add_eval_flags(*command, *flags);
    command->callback([flags, command, &chosen] {
        chosen = [flags, command] {
            flags->common_lines = common_lines(*command);
            return run_on_ranks([&](Ranks* ranks) { return lead(*flags, ranks); },
                                [&](Ranks& ranks) { follow(*flags, ranks); });
        };
    });
}

} // namespace towers
