#include "apps/towers/settings.h"

#include "apps/towers/flags.h"
#include "engine/error.h"

#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <sstream>
#include <toml++/toml.h>
#include <type_traits>

namespace towers {
namespace {

/// Calls visitor(name, field, help) for every setting: the one list that flags, reading and writing come
/// from.
constexpr const char* threads_help = "Threads of the CPU backend; 0: one for each processor";

template<class Settings, class Visitor>
void for_each_setting(Settings& s, const Visitor& visitor) {
    visitor("recipe", s.recipe, "Model, data pipeline, optimizer and schedule: cifar10-tutorial");
    visitor("data", s.data, "Folder of CIFAR-10's binary files, or 'shapes': ten classes of drawn shapes");
    visitor("backend", s.backend, "Use all devices of this backend: cuda, vulkan or cpu");
    visitor("towers", s.towers,
            "One tower on each of these devices, such as cuda:0,vulkan:1,cpu ('towers devices' lists them)");
    visitor("shares", s.shares, "The towers' parts of the global batch, such as 3:1 (default: even)");
    visitor("batch", s.batch, "Mean examples per tower and step (default: the recipe's, 128)");
    visitor("steps", s.steps, "Steps in all (default: the recipe's, 100000)");
    visitor("epochs", s.epochs, "Train for so many passes over the data instead of --steps");
    visitor("lr", s.lr, "Learning rate at the start (default: the recipe's, 0.1)");
    visitor("seed", s.seed,
            "Of initial values, order of examples, distortions and drawn shapes (default: 1)");
    visitor("distort", s.distort,
            "Crop, flip, brightness and contrast at random; off: the evaluation pipeline");
    visitor("shuffle", s.shuffle, "Draw the examples in another order each epoch");
    visitor("init", s.init, "Begin with the variables in this safetensors file");
    visitor("save-every", s.save_every, "Steps between checkpoints; 0: only at the end");
    visitor("keep", s.keep, "Checkpoints to keep; 0: all");
    visitor("log-every", s.log_every, "Steps between log lines; 0: none");
    visitor("log-towers", s.log_towers, "Log each tower's own loss too");
    visitor("threads", s.threads, threads_help);
    visitor("quirks", s.quirks,
            "Bring back defects of the published system: last-tower-loss, step-schedule, unordered-average, "
            "delete-run, padded-evaluation, divided-batch-time; a list, all or none");
}

template<class T>
void take(const toml::node& node, T& field) {
    using Value = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t, T>;
    const auto value = node.value<Value>();
    if (!value) throw std::invalid_argument("has a value of another type");
    if constexpr (std::is_same_v<Value, std::int64_t>) {
        if (*value < 0) throw std::invalid_argument("must not be negative");
        if (std::uint64_t(*value) > std::numeric_limits<T>::max())
            throw std::invalid_argument("is too large");
    }
    field = T(*value);
}
template<class T>
void take(const toml::node& node, std::optional<T>& field) {
    T value{};
    take(node, value);
    field = value;
}

template<class T>
void put(std::string& text, const std::string& name, const T& field) {
    if constexpr (std::is_same_v<T, std::string>) {
        if (field.empty()) return;
        std::ostringstream quoted;
        quoted << toml::value<std::string>(field);
        text += fmt::format("{} = {}\n", name, quoted.str());
    } else {
        text += fmt::format("{} = {}\n", name, field);
    }
}
template<class T>
void put(std::string& text, const std::string& name, const std::optional<T>& field) {
    if (field) put(text, name, *field);
}

} // namespace

void add_settings(CLI::App& command, TrainSettings& settings) {
    for_each_setting(settings, [&]<class T>(const std::string& name, T& field, const char* help) {
        if constexpr (std::is_same_v<T, bool>)
            command
                .add_option(
                    "--" + name,
                    [&field](const CLI::results_t& words) {
                        field = words[0] != "off"; // also --log-towers without a word
                        return true;
                    },
                    help)
                ->check(one_of({"on", "off"}))
                ->type_name("on|off")
                ->default_str(field ? "on" : "off");
        else if constexpr (std::is_same_v<T, std::string>) {
            CLI::Option* option = command.add_option("--" + name, field, help);
            if (!field.empty()) option->capture_default_str();
        } else {
            CLI::Option* option = add_number(command, "--" + name, field, help, name == "batch" ? 1 : 0);
            if constexpr (std::is_arithmetic_v<T>) option->capture_default_str();
        }
    });
    command.get_option("--log-towers")->expected(0, 1)->default_str("");
}

void read_settings(const std::filesystem::path& file, TrainSettings& settings) {
    if (!std::ifstream(file))
        throw InputError(fmt::format("cannot read {}; check the path of the settings", file.string()));
    toml::table table;
    try {
        table = toml::parse_file(file.string());
    } catch (const toml::parse_error& error) {
        throw InputError(
            fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
    }
    // Two ways to say one thing: what was set before goes when the file uses the other.
    if (table.contains("epochs")) settings.steps.reset();
    if (table.contains("steps")) settings.epochs.reset();
    if (table.contains("backend")) settings.towers.clear();
    if (table.contains("towers")) settings.backend.clear();
    for_each_setting(settings, [&](const std::string& name, auto& field, const char*) {
        const toml::node* const node = table.get(name);
        if (node == nullptr) return;
        try {
            take(*node, field);
        } catch (const std::invalid_argument& error) {
            throw InputError(
                fmt::format("{}:{}: '{}' {}", file.string(), node->source().begin.line, name, error.what()));
        }
        table.erase(name);
    });
    for (const auto& [key, node] : table) // what is left is nobody's
        throw InputError(fmt::format("{}:{}: there is no setting '{}'; see 'towers train --help'",
                                     file.string(), node.source().begin.line, std::string_view(key)));
}

void override_settings(CLI::App& command, TrainSettings& settings) {
    const auto said = [&](const char* name) { return command.get_option(name)->count() > 0; };
    if ((said("--backend") || said("--towers")) && !said("--shares"))
        settings.shares.clear(); // of other towers
    if (said("--epochs")) settings.steps.reset();
    if (said("--steps")) settings.epochs.reset();
    if (said("--backend")) settings.towers.clear();
    if (said("--towers")) settings.backend.clear();
    for_each_setting(settings, [&](const std::string& name, auto&, const char*) {
        CLI::Option* const option = command.get_option("--" + name);
        if (option->count() > 0) option->run_callback();
    });
}

std::string write_settings(const TrainSettings& settings) {
    std::string text = "# The settings of this run; 'towers train --config' takes them again.\n";
    for_each_setting(
        settings, [&](const std::string& name, const auto& field, const char*) { put(text, name, field); });
    return text;
}

void add_threads(CLI::App& command, unsigned& threads) {
    add_number(command, "--threads", threads, threads_help)->capture_default_str();
}

void check_threads(unsigned threads) {
    if (threads > 1024) throw UsageError(fmt::format("--threads {}: give at most 1024", threads));
}

void add_validate(CLI::App& command, OpenOptions& options) {
    command.add_flag("--validate", options.validate,
                     "Run Vulkan under the Khronos validation layer; each message is an error");
}

} // namespace towers
