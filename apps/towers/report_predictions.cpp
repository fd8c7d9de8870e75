#include "apps/towers/report_predictions.h"

#include "apps/towers/data_flags.h"
#include "apps/towers/trained_model.h"
#include "backends/error.h"
#include "engine/files/base64.h"
#include "engine/files/png_file.h"
#include "engine/files/text.h"
#include "engine/inference/evaluation.h"
#include "engine/inference/metric.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/run/run_directory.h"
#include "engine/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

namespace towers {
namespace {

constexpr unsigned most_side = 96;     // pixels of a picture in the page
constexpr unsigned most_classes = 100; // of a confusion matrix in the page

/// One record's image as a PNG file, made smaller by a whole number if it is large.
std::string thumbnail(const DataSource& data, std::uint32_t record) {
    const ImageSize size = data.image_size();
    std::vector<std::uint8_t> planes(size.elements());
    data.read(std::span(&record, 1), planes);
    const unsigned times = (std::max(size.height, size.width) + most_side - 1) / most_side;
    // Of a flat picture, as thin as this is, all rows or columns stay.
    const unsigned rows = std::min(times, size.height), columns = std::min(times, size.width);
    const unsigned height = size.height / rows, width = size.width / columns, count = rows * columns;
    std::vector<std::uint8_t> pixels(std::size_t(height) * width * size.channels);
    for (unsigned y = 0; y < height; ++y)
        for (unsigned x = 0; x < width; ++x)
            for (unsigned c = 0; c < size.channels; ++c) {
                unsigned sum = 0;
                for (unsigned i = 0; i < count; ++i)
                    sum += planes[(std::size_t(c) * size.height + y * rows + i / columns) * size.width +
                                  x * columns + i % columns];
                pixels[(std::size_t(y) * width + x) * size.channels + c] =
                    std::uint8_t((sum + count / 2) / count);
            }
    return encode_png({.width = width, .height = height, .channels = size.channels}, pixels);
}

nlohmann::json confusion_json(const ClassificationReport& report) {
    const Confusion& confusion = report.confusion;
    nlohmann::json classes = nlohmann::json::array(), counts = nlohmann::json::array();
    struct Mistaken {
        std::uint32_t label, predicted;
        std::uint64_t count;
    };
    std::vector<Mistaken> mistaken;
    for (std::uint32_t label = 0; label < confusion.classes(); ++label) {
        const ClassFigures& figures = confusion.of(label);
        nlohmann::json each{
            {"examples", figures.examples}, {"predicted", figures.predicted}, {"correct", figures.correct}};
        if (const auto f1 = figures.f1()) each["f1"] = *f1;
        if (const auto auc = report.rankings[label].auc) each["auc"] = *auc;
        if (const auto other = confusion.most_mistaken_for(label))
            each["taken"] = {{"class", *other}, {"count", confusion.count(label, *other)}};
        classes.push_back(std::move(each));
        for (std::uint32_t predicted = 0; predicted < confusion.classes(); ++predicted) {
            const std::uint64_t count = confusion.count(label, predicted);
            if (count == 0) continue;
            if (confusion.classes() <= most_classes) counts.push_back({label, predicted, count});
            if (label != predicted) mistaken.push_back({label, predicted, count});
        }
    }
    std::ranges::stable_sort(mistaken, std::ranges::greater(), &Mistaken::count);
    mistaken.resize(std::min<std::size_t>(mistaken.size(), 10));
    nlohmann::json pairs = nlohmann::json::array();
    for (const Mistaken& each : mistaken) pairs.push_back({each.label, each.predicted, each.count});
    return {{"classes", std::move(classes)}, {"counts", std::move(counts)}, {"pairs", std::move(pairs)}};
}

/// Of examples that may have several labels.
nlohmann::json classes_json(const MultilabelReport& report, const Model& model) {
    nlohmann::json classes = nlohmann::json::array();
    for (std::uint32_t label = 0; label < report.classes.size(); ++label) {
        const ClassFigures& figures = report.classes[label];
        nlohmann::json each{{"label", label + model.label_offset},
                            {"examples", figures.examples},
                            {"predicted", figures.predicted},
                            {"correct", figures.correct}};
        const Ranking& ranking = report.rankings[label];
        if (const auto f1 = figures.f1()) each["f1"] = *f1;
        if (ranking.auc) each["auc"] = *ranking.auc;
        if (ranking.average_precision) each["average_precision"] = *ranking.average_precision;
        classes.push_back(std::move(each));
    }
    return classes;
}

/// Labels of the data as classes of the network.
std::vector<std::uint32_t> network_classes(std::span<const std::uint32_t> labels, const Model& model) {
    std::vector<std::uint32_t> classes;
    for (const std::uint32_t label : labels) classes.push_back(label + model.label_offset);
    return classes;
}

/// The run's latest checkpoint as its evaluation needs it.
struct Evaluated {
    TrainingState state;
    TrainSettings settings; ///< of the training of this checkpoint
    std::uint64_t seed;
    std::vector<std::string> classes; ///< as far as the checkpoint names them
};

std::optional<Evaluated> read_latest(const ReportedRun& run, const StateLayout& layout) {
    if (checkpoint_steps(run.folder).empty()) return std::nullopt;
    std::optional<Evaluated> found;
    read_latest_checkpoint(run.folder, [&](const std::filesystem::path& path) {
        const TensorFile file = read_safetensors(path);
        check_recipe(file, run.recipe, path);
        found = {from_checkpoint(file, layout, path), run.settings, checkpoint_number(file, "seed", path),
                 known_classes(file)};
        if (const auto text = checkpoint_settings(file))
            replace(found->settings, parse_settings(*text, path.string() + ", settings"));
    });
    return found;
}

nlohmann::json absent(const std::string& why) { return {{"absent", as_printable(why)}}; }

} // namespace

std::vector<std::uint32_t> samples_of(std::span<const std::uint32_t> labels, std::size_t count) {
    if (count == 0) return {};
    std::map<std::uint32_t, std::vector<std::uint32_t>> all;
    for (std::size_t i = 0; i < labels.size(); ++i) all[labels[i]].push_back(std::uint32_t(i));
    struct Class {
        std::vector<std::uint32_t> records;
        std::size_t taken = 0;
    };
    std::vector<Class> classes(std::min(count, all.size()));
    std::size_t place = 0;
    for (auto& [label, records] : all) // of too many classes those at even distances
        classes[place++ * classes.size() / all.size()].records = std::move(records);
    std::size_t left = count;
    for (bool more = left > 0; more;) {
        more = false;
        for (Class& each : classes)
            if (left > 0 && each.taken < each.records.size()) ++each.taken, --left, more = true;
    }
    std::vector<std::uint32_t> chosen;
    for (std::size_t round = 0; chosen.size() < count - left; ++round)
        for (const Class& each : classes)
            if (round < each.taken) chosen.push_back(each.records[round * each.records.size() / each.taken]);
    return chosen;
}

nlohmann::json predictions_of(const ReportedRun& run, const PredictionOptions& options) {
    const Recipe& recipe = run.recipe;
    const StateLayout layout = layout_of(recipe);
    const std::optional<Evaluated> latest = read_latest(run, layout);
    if (!latest) return absent("the run has no checkpoint yet");
    std::unique_ptr<DataSource> data;
    try {
        const std::string& source =
            latest->settings.test_data.empty() ? latest->settings.data : latest->settings.test_data;
        if (is_gone(source)) return absent(source + ", which the run used, is not there any more");
        data =
            open_data_for(recipe, data_request(latest->settings, Split::test, latest->seed, latest->classes));
    } catch (const InputError& error) {
        return absent(error.what());
    }
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Evaluator> evaluators;
    OpenOptions open = options.open;
    choose_precision(open, options.products, precision_in(latest->settings), recipe);
    for (const std::string& id : options.towers) {
        devices.push_back(open_device(id, open));
        evaluators.emplace_back(*devices.back(), recipe, *data, options.batch);
    }
    const bool averaged = layout.averages() != nullptr;
    Predictions all;
    try {
        all = evaluate(evaluators,
                       part(std::span(latest->state.state),
                            averaged ? layout.averages()->range : layout.all_variables()),
                       recipe.model.classes);
    } catch (const InputError& error) { // a streamed picture
        return absent(error.what());
    }
    const std::vector<Prediction>& predictions = all.each;
    const Evaluation result = sum_up(predictions);
    if (!std::isfinite(result.cross_entropy())) return absent("the model has diverged");

    const LabelSets* const sets = data->label_sets().get();
    const SigmoidScores scores = scores_of(all.scores, recipe.model);
    const std::vector<double> thresholds(data->info().classes.size(), usual_threshold);
    std::vector<std::uint32_t> labels;
    for (const std::uint32_t label : data->labels()) labels.push_back(label + recipe.model.label_offset);
    std::vector<std::uint32_t> mistakes;
    for (std::uint32_t i = 0; i < labels.size(); ++i)
        if (sets != nullptr ? !std::ranges::equal(sets->of(i), labels_found(scores, i, thresholds))
                            : predictions[i].predicted != labels[i])
            mistakes.push_back(i);
    std::ranges::stable_sort(mistakes, std::ranges::greater(),
                             [&](std::uint32_t record) { return predictions[record].loss; });
    mistakes.resize(std::min<std::size_t>(mistakes.size(), options.pictures));

    const auto pictures = [&](const std::vector<std::uint32_t>& records) {
        nlohmann::json list = nlohmann::json::array();
        for (const std::uint32_t record : records) {
            const Prediction& made = predictions[record];
            nlohmann::json picture{{"image", base64(thumbnail(*data, record))},
                                   {"record", record},
                                   {"place", as_printable(data->place_of(record))}};
            if (sets != nullptr) {
                picture["labels"] = network_classes(sets->of(record), recipe.model);
                picture["predicted"] =
                    network_classes(labels_found(scores, record, thresholds), recipe.model);
            } else {
                picture["label"] = labels[record];
                picture["predicted"] = made.predicted;
                picture["rank"] = made.rank;
                picture["probability"] = std::exp(-double(made.loss));
            }
            list.push_back(std::move(picture));
        }
        return list;
    };
    nlohmann::json names = nlohmann::json::array();
    for (const std::string& name : class_names(recipe.model, data->info().classes))
        names.push_back(as_printable(name));
    nlohmann::json json{{"data", as_printable(data->info().name)},
                        {"step", latest->state.step},
                        {"averaged", averaged},
                        {"devices", options.towers},
                        {"examples", result.examples},
                        {"names", std::move(names)},
                        {"samples", pictures(samples_of(labels, options.pictures))},
                        {"mistakes", pictures(mistakes)}};
    if (sets != nullptr) {
        const MultilabelReport report(*sets, scores, thresholds);
        json["several"] = true;
        json["correct"] = report.exact;
        json["metrics"] = values_of_metrics({result, nullptr, recipe.model.classes, true, &report});
        json["classes"] = classes_json(report, recipe.model);
    } else {
        const ClassificationReport report(labels, all, recipe.model.classes, recipe.model.heads[0]);
        json["correct"] = result.correct;
        json["metrics"] = values_of_metrics({result, &report, recipe.model.classes});
        json["confusion"] = confusion_json(report);
    }
    return json;
}

} // namespace towers
