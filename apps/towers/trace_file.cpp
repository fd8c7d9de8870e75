#include "apps/towers/trace_file.h"

#include "apps/towers/progress.h"
#include "apps/towers/train_flags.h"
#include "backends/error.h"
#include "engine/files/output.h"
#include "engine/run/run_directory.h"

#include <filesystem>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace towers {

namespace {

constexpr std::uint64_t default_steps = 10;

} // namespace

TraceFile make_trace(const TrainFlags& flags) {
    if (flags.trace.empty()) {
        if (flags.trace_steps) throw UsageError("--trace-steps: name the file to write with --trace FILE");
        return {"", flags.log_placement ? std::make_shared<Trace>(default_steps) : nullptr};
    }
    namespace fs = std::filesystem;
    const auto complain = [&](const std::string& what) {
        throw UsageError(fmt::format("--trace '{}': {}", flags.trace, what));
    };
    if (is_standard_output(flags.trace)) complain("the log is there; give a file");
    try {
        const fs::path path = fs::weakly_canonical(fs::absolute(flags.trace));
        const fs::path run =
            flags.run.empty() ? fs::path() : fs::weakly_canonical(fs::absolute(flags.run) / "");
        if (fs::is_directory(path) || path / "" == run) complain("is a folder; give a file");
        // The run will make its own folder.
        if (path.parent_path() / "" != run)
            check_output(path);
        else if (is_taken_by_run(path.filename().string()))
            complain("the run has a file of this name; give another");
    } catch (const UsageError&) {
        throw;
    } catch (const fs::filesystem_error& error) {
        complain(error.code().message());
    } catch (const InputError& error) {
        complain(error.what());
    }
    return {flags.trace, std::make_shared<Trace>(flags.trace_steps.value_or(default_steps))};
}

std::string write_trace(const TraceFile& file) {
    const auto [first, last] = file.trace->steps();
    if (first == Trace::none) return "no trace is written: the run took no step\n";
    file.trace->write(file.path);
    std::string lines;
    for (const std::string& note : file.trace->notes()) lines += note + "\n";
    return lines + fmt::format("trace of steps {} to {}: {} (https://ui.perfetto.dev shows it)\n", first,
                               last, file.path);
}

void write_trace_of_failed(const TraceFile& file) {
    if (file.path.empty()) return;
    try {
        const std::string lines = write_trace(file);
        try_to([&] { fmt::print("{}", lines); });
    } catch (const std::exception& error) {
        spdlog::warn("no trace is written: {}", error.what());
    }
}

} // namespace towers
