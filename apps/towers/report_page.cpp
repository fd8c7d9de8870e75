#include "apps/towers/report_page.h"

#include "apps/towers/html_page.h"
#include "apps/towers/network_drawing.h"
#include "apps/towers/report_differences.h"
#include "backends/error.h"
#include "engine/files/output.h"
#include "engine/files/text.h"
#include "engine/run/run_directory.h"

#include <algorithm>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>

namespace towers {
namespace {

constexpr std::string_view page =
#include "page/report.html.inc"
    ;
constexpr std::string_view style =
#include "page/report.css.inc"
    ;
constexpr std::string_view charts =
#include "page/chart.js.inc"
    ;
constexpr std::string_view script =
#include "page/report.js.inc"
    ;

constexpr std::size_t most_recipe_rows = 25;

nlohmann::json network_json(const Model& model) {
    const NetworkDrawing drawing = draw_network(model);
    std::size_t parameters = 0;
    for (const Variable& variable : model.variables())
        if (variable.role == Role::trained) parameters += variable.elements();
    nlohmann::json json{{"width", drawing.width},
                        {"height", drawing.height},
                        {"box_width", NetworkDrawing::box_width},
                        {"box_height", NetworkDrawing::box_height},
                        {"parameters", parameters},
                        {"layers", model.nodes.size()},
                        {"boxes", nlohmann::json::array()},
                        {"lines", drawing.lines},
                        {"repeats", nlohmann::json::array()}};
    for (const NetworkBox& box : drawing.boxes)
        json["boxes"].push_back({{"name", as_printable(box.name)},
                                 {"kinds", box.kinds},
                                 {"shape", box.shape},
                                 {"parameters", box.parameters},
                                 {"x", box.x},
                                 {"y", box.y}});
    for (const NetworkRepeat& repeat : drawing.repeats)
        json["repeats"].push_back({{"times", repeat.times},
                                   {"x", repeat.x},
                                   {"y", repeat.y},
                                   {"width", repeat.width},
                                   {"height", repeat.height}});
    return json;
}

/// A name for each run: its folder's, or the whole path where two folders have the same.
std::vector<std::string> names_of(std::span<const ReportedRun> runs) {
    std::vector<std::string> names;
    for (const ReportedRun& run : runs) {
        const auto same = std::ranges::count(runs, run.name, &ReportedRun::name);
        names.push_back(same > 1 ? as_printable(run.folder) : run.name);
    }
    return names;
}

} // namespace

std::string report_page(std::span<const ReportedRun> runs, std::span<const nlohmann::json> predictions) {
    nlohmann::json report{{"schema", 1},
                          {"towers_version", TOWERS_VERSION},
                          {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                          {"metrics", nlohmann::json::array()},
                          {"runs", nlohmann::json::array()},
                          {"networks", nlohmann::json::array()},
                          {"settings", settings_table(runs)},
                          {"recipe_differences", recipe_differences(runs, most_recipe_rows)}};
    for (const Metric& metric : all_metrics())
        report["metrics"].push_back({{"name", metric.name}, {"text", metric.text}});
    const std::vector<std::string> names = names_of(runs);
    for (std::size_t i = 0; i < runs.size(); ++i) {
        nlohmann::json run = to_json(runs[i]);
        run["name"] = names[i];
        const nlohmann::json network = network_json(runs[i].recipe.model);
        nlohmann::json& networks = report["networks"]; // each once
        const auto same = std::find(networks.begin(), networks.end(), network);
        run["network"] = same - networks.begin();
        if (same == networks.end()) networks.push_back(network);
        if (!predictions.empty()) run["predictions"] = predictions[i];
        report["runs"].push_back(std::move(run));
    }
    return html_page({page, style, fmt::format("{}{}", charts, script)},
                     report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string write_report(const std::string& folder, const PredictionOptions* options) {
    const ReportedRun run = read_run(folder);
    std::vector<nlohmann::json> predictions;
    try {
        if (options != nullptr) predictions.push_back(predictions_of(run, *options));
    } catch (const DeviceError& error) { // it may have failed in the run too
        predictions.push_back({{"absent", as_printable(error.what())}});
    } catch (const InputError& error) { // the training is done, whatever its files have become
        predictions.push_back({{"absent", as_printable(error.what())}});
    }
    const std::filesystem::path path = report_path_in(folder);
    write_output(path, report_page(std::span(&run, 1), predictions));
    return path.string();
}

} // namespace towers
