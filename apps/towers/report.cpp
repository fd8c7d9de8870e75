#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/flags.h"
#include "apps/towers/pair_drawing.h"
#include "apps/towers/report_page.h"
#include "apps/towers/start_over.h"
#include "backends/error.h"
#include "engine/files/output.h"
#include "engine/run/run_directory.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

struct ReportFlags {
    std::vector<std::string> runs;
    std::string out, svg, trace, backend, towers;
    bool predict = true;
    unsigned batch = 128;
    PrecisionFlags products;
    OpenOptions open;
};

/// Where the page goes: into the run's folder, or, about several runs, into the current one.
std::filesystem::path place_of_page(const ReportFlags& flags) {
    if (!flags.out.empty()) return flags.out;
    return flags.runs.size() == 1 ? report_path_in(flags.runs[0]) : std::filesystem::path("report.html");
}

/// predictions_of(), whose message says how to do without.
nlohmann::json predicted(const ReportedRun& run, const PredictionOptions& options) {
    try {
        return predictions_of(run, options);
    } catch (const UsageError&) {
        throw;
    } catch (const InputError& error) {
        throw InputError(fmt::format("{}; --no-predictions writes the page without it", error.what()));
    }
}

/// Draws the first run's towers at work, with the other runs beside it.
int run_drawing(const ReportFlags& flags) {
    if (flags.trace.empty())
        throw UsageError(
            "--svg: give --trace FILE too, which 'train --trace FILE' has written in the first run");
    check_output(flags.svg);
    const TracedSteps trace = read_trace(flags.trace, 2);
    const ReportedRun run = read_run(flags.runs[0]);
    std::vector<ReportedRun> alone;
    for (std::size_t i = 1; i < flags.runs.size(); ++i) alone.push_back(read_run(flags.runs[i]));
    write_output(flags.svg, draw_pair(run, alone, trace));
    if (!is_standard_output(flags.svg)) fmt::print("wrote {}\n", flags.svg);
    return 0;
}

int run_report(const ReportFlags& flags) {
    constexpr std::size_t most = 12; // that a page can hold side by side
    if (flags.runs.empty()) throw UsageError("give the folders of runs; see 'towers report --help'");
    if (flags.runs.size() > most)
        throw UsageError(
            fmt::format("{} runs are too many for a page; give at most {}", flags.runs.size(), most));
    if (!flags.svg.empty() && !flags.out.empty())
        throw UsageError("--svg writes a picture, and --out a page; give one of them");
    if (flags.svg.empty() && !flags.trace.empty())
        throw UsageError("--trace: give --svg FILE, the picture, too");
    if (!flags.svg.empty()) return run_drawing(flags);
    check_threads(flags.open.threads);
    check_precision(flags.products);
    std::vector<ReportedRun> runs;
    for (const std::string& folder : flags.runs) runs.push_back(read_run(folder));
    const std::filesystem::path out = place_of_page(flags);
    check_output(out);
    std::FILE* const text = text_stream({flags.out});
    std::vector<nlohmann::json> predictions;
    if (flags.predict) {
        const PredictionOptions options{.towers = choose_towers(flags.backend, flags.towers, flags.open),
                                        .open = flags.open,
                                        .products = flags.products,
                                        .batch = flags.batch};
        for (const ReportedRun& run : runs) {
            predictions.push_back(predicted(run, options));
            if (const auto why = predictions.back().find("absent"); why != predictions.back().end())
                fmt::print(text, "{}: no predictions: {}\n", run.folder, why->get<std::string>());
        }
    }
    write_output(out, report_page(runs, predictions));
    if (!is_standard_output(out)) fmt::print(text, "wrote {}\n", out.string());
    return 0;
}

} // namespace

void add_report(CLI::App& app, Action& chosen) {
    CLI::App* const command =
        app.add_subcommand("report", "Write a page about a run, or about several side by side");
    const auto flags = std::make_shared<ReportFlags>();
    command->add_option("runs,--run", flags->runs, "Folders of runs, which may still go on")
        ->type_name("RUN");
    command->add_option("--out", flags->out,
                        "HTML file to write (default: report.html in the run's folder; of several runs, in "
                        "the current one)");
    command->add_option("--svg", flags->svg,
                        "Instead of the page, draw the first run's towers at work to this SVG file: two "
                        "steps of --trace, the shares, and the rate beside that of the other runs");
    command->add_option("--trace", flags->trace, "The trace that 'train --trace' wrote of the first run");
    command->add_flag("!--no-predictions", flags->predict,
                      "Leave out the test pictures: evaluate nothing, and read no data");
    command->add_option("--backend", flags->backend,
                        "Evaluate on all devices of this backend: cuda, vulkan or cpu");
    command->add_option("--towers", flags->towers,
                        "Evaluate on these devices, such as vulkan:0,cpu ('towers devices' lists them; "
                        "default: those that training would use)");
    add_number(*command, "--batch", flags->batch, "Number of examples to evaluate at a time", 1)
        ->capture_default_str();
    add_threads(*command, flags->open.threads);
    add_exact_products(*command, flags->open.exact_products);
    add_precision(*command, flags->products, "as the run was trained");
    add_device_flags(*command, flags->open);
    command->callback([flags, &chosen] { chosen = [flags] { return run_report(*flags); }; });
}

} // namespace towers
