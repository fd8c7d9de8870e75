// The subcommands of `towers`. Each adds itself to the command line and sets what to run when the user
// chooses it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace towers {

/// Runs the chosen subcommand and returns the program's exit code. Throws InputError, DeviceError or
/// Diverged.
using Action = std::function<int()>;

void add_devices(CLI::App& app, Action& chosen);
void add_train(CLI::App& app, Action& chosen);
void add_eval(CLI::App& app, Action& chosen);
void add_predict(CLI::App& app, Action& chosen);
void add_parity(CLI::App& app, Action& chosen);
void add_replay(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_data(CLI::App& app, Action& chosen);
void add_data_show(CLI::App& data, Action& chosen); ///< `towers data show`
void add_export(CLI::App& app, Action& chosen);
void add_recipe(CLI::App& app, Action& chosen);
void add_completion(CLI::App& app, Action& chosen);
void add_report(CLI::App& app, Action& chosen);

} // namespace towers
