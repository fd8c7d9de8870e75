#include "apps/towers/eval_report.h"

#include "apps/towers/csv.h"
#include "backends/error.h"
#include "engine/files/output.h"
#include "engine/files/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>

namespace towers {
namespace {

std::string figure(const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "-"; }

nlohmann::json number(const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
}

/// What a class has, whether an example has one label or several.
nlohmann::json class_json(const std::string& name, unsigned label, const ClassFigures& figures,
                          const Ranking& ranking) {
    return {{"class", as_utf8(name)},
            {"label", label},
            {"examples", figures.examples},
            {"predicted", figures.predicted},
            {"correct", figures.correct},
            {"precision", number(figures.precision())},
            {"recall", number(figures.recall())},
            {"f1", number(figures.f1())},
            {"auc", number(ranking.auc)},
            {"average_precision", number(ranking.average_precision)}};
}

nlohmann::json report_json(nlohmann::json classes) {
    return {{"schema", 1},
            {"towers_version", TOWERS_VERSION},
            {"calibration_bins", calibration_bins},
            {"classes", std::move(classes)}};
}

} // namespace

std::string class_table(const ClassificationReport& report, const std::vector<std::string>& names) {
    const std::string macro = "macro average", weighted = "weighted average";
    const Confusion& confusion = report.confusion;
    std::size_t width = weighted.size();
    for (const std::string& name : names) width = std::max(width, as_printable(name).size());
    std::string table;
    const auto add = [&](const std::string& name, const std::string& examples,
                         const std::array<std::string, 4>& figures, const std::string& taken) {
        table += fmt::format("{:<{}}  {:>8}  {:>9}  {:>6}  {:>5}  {:>5}{}\n", name, width, examples,
                             figures[0], figures[1], figures[2], figures[3], taken);
    };
    add("class", "examples", {"precision", "recall", "F1", "AUC"}, "  most often taken for");
    std::uint64_t examples = 0;
    for (std::uint32_t label = 0; label < confusion.classes(); ++label) {
        const ClassFigures& figures = confusion.of(label);
        const std::optional<std::uint32_t> other = confusion.most_mistaken_for(label);
        examples += figures.examples;
        add(as_printable(names[label]), fmt::to_string(figures.examples),
            {figure(figures.precision()), figure(figures.recall()), figure(figures.f1()),
             figure(report.rankings[label].auc)},
            other ? fmt::format("  {} ({})", as_printable(names[*other]), confusion.count(label, *other))
                  : "");
    }
    for (const auto& [name, average] :
         {std::pair{macro, &Averages::macro}, std::pair{weighted, &Averages::weighted}})
        add(name, fmt::to_string(examples),
            {figure(report.precision.*average), figure(report.recall.*average), figure(report.f1.*average),
             figure(report.auc.*average)},
            "");
    return table;
}

nlohmann::json to_json(const ClassificationReport& report, const std::vector<std::string>& names) {
    const Confusion& confusion = report.confusion;
    nlohmann::json classes = nlohmann::json::array();
    for (std::uint32_t label = 0; label < confusion.classes(); ++label) {
        const ClassFigures& figures = confusion.of(label);
        const std::optional<std::uint32_t> other = confusion.most_mistaken_for(label);
        nlohmann::json taken;
        if (other)
            taken = {{"class", as_utf8(names[*other])},
                     {"label", *other},
                     {"count", confusion.count(label, *other)}};
        nlohmann::json its = class_json(names[label], label, figures, report.rankings[label]);
        its["most_often_taken_for"] = taken;
        classes.push_back(std::move(its));
    }
    return report_json(std::move(classes));
}

std::string class_table(const MultilabelReport& report, const std::vector<std::string>& names) {
    std::size_t width = std::string_view("weighted average").size();
    for (const std::string& name : names) width = std::max(width, as_printable(name).size());
    std::string table = fmt::format(
        "{:<{}}  {:>8}  {:>9}  {:>6}  {:>5}  {:>5}  {:>5}  {:>9}  {:>8}  {:>8}  {:>8}  {:>8}\n", "class",
        width, "examples", "precision", "recall", "F1", "AUC", "AP", "threshold", "TP", "FP", "FN", "TN");
    std::uint64_t examples = 0;
    for (std::uint32_t label = 0; label < report.classes.size(); ++label) {
        const ClassFigures& its = report.classes[label];
        const Ranking& ranking = report.rankings[label];
        examples += its.examples;
        table += fmt::format(
            "{:<{}}  {:>8}  {:>9}  {:>6}  {:>5}  {:>5}  {:>5}  {:>9.3f}  {:>8}  {:>8}  {:>8}  {:>8}\n",
            as_printable(names[label]), width, its.examples, figure(its.precision()), figure(its.recall()),
            figure(its.f1()), figure(ranking.auc), figure(ranking.average_precision),
            report.thresholds[label], its.correct, its.predicted - its.correct, its.examples - its.correct,
            report.true_negatives(label));
    }
    for (const auto& [name, average] : {std::pair{"macro average", &Averages::macro},
                                        {"micro average", &Averages::micro},
                                        {"weighted average", &Averages::weighted}})
        table += fmt::format("{:<{}}  {:>8}  {:>9}  {:>6}  {:>5}  {:>5}  {:>5}\n", name, width, examples,
                             figure(report.precision.*average), figure(report.recall.*average),
                             figure(report.f1.*average), figure(report.auc.*average),
                             figure(report.average_precision.*average));
    return table;
}

nlohmann::json to_json(const MultilabelReport& report, const std::vector<std::string>& names,
                       unsigned label_offset) {
    nlohmann::json classes = nlohmann::json::array();
    for (std::uint32_t label = 0; label < report.classes.size(); ++label) {
        nlohmann::json its =
            class_json(names[label], label + label_offset, report.classes[label], report.rankings[label]);
        its["threshold"] = report.thresholds[label];
        its["true_negatives"] = report.true_negatives(label);
        classes.push_back(std::move(its));
    }
    return report_json(std::move(classes));
}

std::string confusion_csv(const MultilabelReport& report, const std::vector<std::string>& names) {
    std::string text = "class,threshold,true_positives,false_positives,false_negatives,true_negatives\r\n";
    for (std::uint32_t label = 0; label < report.classes.size(); ++label) {
        const ClassFigures& its = report.classes[label];
        text += fmt::format("{},{},{},{},{},{}\r\n", csv_field(names[label]), report.thresholds[label],
                            its.correct, its.predicted - its.correct, its.examples - its.correct,
                            report.true_negatives(label));
    }
    return text;
}

std::string confusion_csv(const Confusion& confusion, const std::vector<std::string>& names) {
    std::string text = "class";
    for (const std::string& name : names) text += ',' + csv_field(name);
    for (std::uint32_t label = 0; label < confusion.classes(); ++label) {
        text += "\r\n" + csv_field(names[label]);
        for (std::uint32_t predicted = 0; predicted < confusion.classes(); ++predicted)
            text += fmt::format(",{}", confusion.count(label, predicted));
    }
    return text + "\r\n";
}

Canvas confusion_picture(const Confusion& confusion, const std::vector<std::string>& names) {
    constexpr unsigned wanted = 512, widest = 160, gap = 4; // pixels
    const unsigned classes = confusion.classes(), cell = std::max(1u, wanted / classes);
    unsigned text = 0, margin = 0; // of the longest name, and what it needs beside the matrix
    if (cell >= text_height) {
        for (const std::string& name : names) text = std::max(text, std::min(widest, text_width(name)));
        margin = text + 2 * gap;
    }
    const unsigned side = margin + cell * classes + (margin > 0 ? gap : 0);
    Canvas picture(side, side);
    for (std::uint32_t label = 0; label < classes; ++label) {
        const auto all = double(std::max<std::uint64_t>(1, confusion.of(label).examples));
        for (std::uint32_t predicted = 0; predicted < classes; ++predicted) {
            const double part = double(confusion.count(label, predicted)) / all;
            const auto grey = std::uint8_t(255 - std::lround(255 * part));
            for (unsigned y = 0; y < cell; ++y)
                for (unsigned x = 0; x < cell; ++x)
                    picture.set(margin + predicted * cell + x, margin + label * cell + y, {grey, grey, grey});
        }
        if (margin == 0) continue;
        const unsigned middle = margin + label * cell + (cell - text_height) / 2;
        picture.write(names[label], gap, middle, text);
        picture.write(names[label], middle, margin - gap, text, Canvas::Direction::up);
    }
    return picture;
}

void check_confusion_file(const std::filesystem::path& path) {
    if (path != "-" && path.extension() != ".csv" && path.extension() != ".png")
        throw UsageError(fmt::format("--confusion {}: give a file whose name ends in .csv or .png, or - for "
                                     "CSV on standard output",
                                     path.string()));
    check_output(path);
}

void write_confusion(const std::filesystem::path& path, const Confusion& confusion,
                     const std::vector<std::string>& names) {
    constexpr unsigned most = 4096;
    if (confusion.classes() > most)
        throw InputError(fmt::format("{}: a confusion matrix has at most {} classes, and the model {}",
                                     path.string(), most, confusion.classes()));
    if (path.extension() != ".png") return write_output(path, confusion_csv(confusion, names));
    confusion_picture(confusion, names).save(path);
}

} // namespace towers
