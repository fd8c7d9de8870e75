#include "apps/towers/train_flags.h"

#include "apps/towers/common_flags.h"
#include "apps/towers/flags.h"

namespace towers {

Given given_by(const TrainFlags& flags) {
    return {flags.config.empty() ? GivenSettings() : read_settings(flags.config), flags.settings};
}

void add_train_flags(CLI::App& command, TrainFlags& flags) {
    add_settings(command, flags.settings.values);
    command.add_option("--run", flags.run,
                       "Run directory for checkpoints and metrics (default: a new one under runs/)");
    command.add_flag("--resume", flags.resume,
                     "Resume the run in --run, with its settings unless a flag overrides them");
    add_number(command, "--resume-from", flags.resume_from,
               "Resume the run in --run from the checkpoint of step N; move later checkpoints to "
               "RUN/replaced-1 (or the next free number)");
    command.add_option(
        "--config", flags.config,
        "Take the settings in this TOML file, such as a run's config.toml; flags override them");
    command
        .add_option("--progress", flags.progress,
                    "How to show progress: live updates one line in place; log prints the tutorial's log "
                    "lines; auto is live on a terminal, else log")
        ->check(one_of({"auto", "live", "log"}))
        ->type_name("auto|live|log")
        ->capture_default_str();
    command.add_flag("--report", flags.report,
                     "At the end, write a page about the run to report.html in its directory, as "
                     "'towers report' does");
    command.add_option("--trace", flags.trace,
                       "Write a trace of the run's last steps to this file, for https://ui.perfetto.dev: "
                       "each tower's kernels, copies and waits, and the host's averaging");
    add_number(command, "--trace-steps", flags.trace_steps, "Steps to keep for --trace (default: 10)", 1);
    command.add_flag("--log-placement", flags.log_placement,
                     "List each operation of the step with its device and how that runs it, and at the end "
                     "what share of the step each took");
    add_validate(command, flags.open);
}

} // namespace towers
