#include "apps/towers/commands.h"
#include "apps/towers/ending.h"
#include "apps/towers/flags.h"
#include "apps/towers/ranks.h"
#include "apps/towers/start_over.h"
#include "apps/towers/starting.h"
#include "backends/backend.h"
#include "backends/error.h"
#include "backends/headroom.h"
#include "backends/watched_device.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <string>
#include <system_error>
#include <vector>

namespace {

using towers::command_line_wrong, towers::report, towers::work_failed;

int run_or_start_over(const towers::Action& command) {
    try {
        return command();
    } catch (const towers::DeviceError& error) {
        towers::start_over_without(error);
        throw;
    }
}

int run_command(int argc, char** argv) {
    CLI::App app("Train convolutional networks with one replica of the model, a tower, per compute device.",
                 "towers");
    app.require_subcommand(1);
    app.fallthrough(false);
    app.set_version_flag("--version", "towers " TOWERS_VERSION, "Print the version and exit");
    app.get_formatter()->label("UINT", "N");
    app.get_formatter()->label("FLOAT", "X");
    towers::Action chosen;
    towers::add_devices(app, chosen);
    towers::add_train(app, chosen);
    towers::add_eval(app, chosen);
    towers::add_predict(app, chosen);
    towers::add_parity(app, chosen);
    towers::add_replay(app, chosen);
    towers::add_bench(app, chosen);
    towers::add_export(app, chosen);
    towers::add_recipe(app, chosen);
    towers::add_data(app, chosen);
    towers::add_completion(app, chosen);
    towers::add_report(app, chosen);
    // `towers help train` is `towers train --help`
    std::vector<std::string> words = towers::switch_words({argv + 1, argv + argc});
    const bool asks_help = !words.empty() && words[0] == "help";
    if (asks_help) {
        std::erase(words, "help");
        words.emplace_back("--help");
    }
    std::ranges::reverse(words); // as CLI11 wants them
    try {
        app.parse(words);
    } catch (const CLI::Success& help) { // --help and --version
        const std::string unknown = asks_help ? towers::describe_unknown_word(app) : "";
        return unknown.empty() ? app.exit(help) : report(command_line_wrong, unknown);
    } catch (const CLI::ParseError& error) {
        return report(command_line_wrong, towers::describe_mistake(app, error));
    }
    if (const std::string odd = towers::describe_odd_value(app); !odd.empty())
        return report(command_line_wrong, odd);
    try {
        if (const std::string name = app.get_subcommands().front()->get_name();
            name != "train" && name != "eval" && name != "predict" && name != "bench" && name != "devices")
            towers::check_alone(name);
        const int code = run_or_start_over(chosen);
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
            return report(work_failed, "cannot write to standard output; the output is incomplete");
        if (towers::validation_messages() == 0) return code;
        return report(work_failed, fmt::format("the Vulkan validation layer sent {} messages",
                                               towers::validation_messages()));
    } catch (const towers::UsageError& error) {
        return report(command_line_wrong, error.what());
    } catch (const towers::OutOfMemory& error) {
        return report(work_failed, error.what() + towers::memory_advice(app));
    } catch (const towers::NoAnswer& error) {
        return report(work_failed, error.what());
    } catch (const towers::DeviceLost& error) {
        return report(work_failed, error.what() + towers::lost_advice(app));
    } catch (const std::bad_alloc&) {
        return report(work_failed, "there is not enough memory" + towers::memory_advice(app));
    } catch (const std::system_error& error) {
        const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
        return report(work_failed, no_thread ? towers::no_more_threads() : error.what());
    } catch (const std::exception& error) {
        return report(work_failed, error.what());
    }
}

} // namespace

int main(int argc, char** argv) {
    static bool ends_by_itself = false;
    towers::at_forced_exit = [] { // OpenMP's library ends the program if it gets no thread, and a driver may
        if (ends_by_itself) return;
        const std::string why = towers::thread_can_be_had() ? "" : "; maybe " + towers::no_more_threads();
        towers::end_at_once(report(work_failed, "a library ended the program, as it says above" + why));
    };
    std::atexit(towers::at_forced_exit);
    std::signal(SIGUSR1, SIG_IGN); // until a training handles it: it must not end one that is starting
    towers::open_standard_streams();
    towers::restrain_openmp();
    std::signal(SIGXFSZ, SIG_IGN); // a file over the user's limit is an error to report, like a full disk
    spdlog::set_default_logger(spdlog::stderr_color_mt("towers"));
    spdlog::set_pattern("towers: %v");
    towers::watch_for_crashes();
    const int code = run_command(argc, argv);
    // What a driver or library has begun and could not complete may hang when it is torn down.
    if (code == work_failed || towers::any_driver_hangs()) towers::end_at_once(code);
    ends_by_itself = true;
    return code;
}
