#include "apps/towers/predict_output.h"

#include "apps/towers/csv.h"
#include "apps/towers/ending.h"
#include "engine/files/text.h"

#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

namespace towers {
namespace {

std::string as_json(const std::string& text) { return nlohmann::json(as_utf8(text)).dump(); }

} // namespace

std::string prediction_header(PredictionFormat format, std::size_t top) {
    if (format != PredictionFormat::csv) return "";
    std::string line = "picture";
    for (std::size_t i = 1; i <= top; ++i) line += fmt::format(",class_{},probability_{}", i, i);
    return line + "\r\n";
}

std::string prediction_line(PredictionFormat format, const std::string& picture,
                            std::span<const ClassProbability> classes, const std::vector<std::string>& names,
                            std::span<const float> scores) {
    using Each = ClassProbability;
    switch (format) {
    case PredictionFormat::json:
        return fmt::format("{{\"picture\":{},\"classes\":[{}]{}}}\n", as_json(picture),
                           listed(classes,
                                  [&](const Each& each) {
                                      return fmt::format(
                                          "{{\"class\":{},\"label\":{},\"probability\":{:.6g}}}",
                                          as_json(names[each.label]), each.label, each.probability);
                                  }),
                           scores.empty() ? "" : fmt::format(",\"scores\":[{:.9g}]", fmt::join(scores, ",")));
    case PredictionFormat::csv: {
        std::string line = csv_field(as_utf8(picture));
        for (const Each& each : classes)
            line += fmt::format(",{},{:.6g}", csv_field(as_utf8(names[each.label])), each.probability);
        return line + "\r\n";
    }
    default:
        return fmt::format("{}: {}\n", as_printable(picture), listed(classes, [&](const Each& each) {
                               return fmt::format("{} {:.3f}", as_printable(names[each.label]),
                                                  each.probability);
                           }));
    }
}

std::string labels_header(PredictionFormat format, const std::vector<std::string>& names) {
    if (format != PredictionFormat::csv) return "";
    std::string line = "picture,labels";
    for (const std::string& name : names) line += ',' + csv_field(as_utf8(name));
    return line + "\r\n";
}

std::string labels_line(PredictionFormat format, const std::string& picture,
                        std::span<const ClassProbability> labels, std::span<const double> probabilities,
                        const std::vector<std::string>& names, std::span<const float> scores) {
    if (format == PredictionFormat::csv) {
        std::string found;
        for (const ClassProbability& each : labels)
            found += (found.empty() ? "" : "|") + as_utf8(names[each.label]);
        std::string line = csv_field(as_utf8(picture)) + ',' + csv_field(found);
        for (const double each : probabilities) line += fmt::format(",{:.6g}", each);
        return line + "\r\n";
    }
    if (format == PredictionFormat::text && labels.empty())
        return fmt::format("{}: no label\n", as_printable(picture));
    return prediction_line(format, picture, labels, names, scores);
}

PredictionOutput::PredictionOutput(std::uint64_t pictures)
    : pictures_(pictures), shows_progress_(isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 0),
      begun_(std::chrono::steady_clock::now()), shown_(begun_) {}

void PredictionOutput::add(std::uint64_t first, Part part) {
    const std::scoped_lock lock(mutex_);
    waiting_.emplace(first, std::move(part));
    for (auto next = waiting_.begin(); next != waiting_.end() && next->first == printed_;
         next = waiting_.erase(next)) {
        if (!next->second.problems.empty()) hide_progress();
        fmt::print("{}", next->second.lines);
        for (const std::string& problem : next->second.problems) report(work_failed, problem);
        printed_ += next->second.pictures;
    }
    std::fflush(stdout);
    show_progress();
}

void PredictionOutput::show_progress() {
    const auto now = std::chrono::steady_clock::now();
    if (!shows_progress_ || now - shown_ < std::chrono::milliseconds(500)) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    const std::string line = fmt::format("{} of {} pictures ({:.0f} pictures/sec)", printed_, pictures_,
                                         double(printed_) / seconds);
    fmt::print(stderr, "\r{:<{}}", line, width_);
    std::fflush(stderr);
    width_ = line.size();
}

void PredictionOutput::hide_progress() {
    if (width_ == 0) return;
    fmt::print(stderr, "\r{:<{}}\r", "", width_);
    std::fflush(stderr);
    width_ = 0;
}

} // namespace towers
