#include "apps/towers/completion.h"

#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/flags.h"
#include "backends/backend.h"
#include "engine/data/formats.h"
#include "engine/inference/metric.h"
#include "engine/recipes/recipes.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <string_view>

namespace towers {
namespace {

/// "cifar10, tfrecord or shapes" or "on|off" as a list
std::vector<std::string> words_in(std::string_view text) {
    std::vector<std::string> words;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
        end = std::min(text.find_first_of(", |", begin), text.size());
        const std::string_view word = text.substr(begin, end - begin);
        if (!word.empty() && word != "or") words.emplace_back(word);
    }
    return words;
}

std::vector<std::string> recipe_names() {
    std::vector<std::string> names;
    for (const BuiltinRecipe& each : builtin_recipes()) names.emplace_back(each.name);
    return names;
}

std::vector<std::string> backend_names() {
    std::vector<std::string> names;
    for (const Backend* const each : all_backends()) names.emplace_back(each->name());
    return names;
}

std::vector<std::string> metric_names() {
    std::vector<std::string> names;
    for (const Metric& each : all_metrics()) names.push_back(each.name);
    return names;
}

/// The first clause of a help text.
std::string in_short(std::string_view help) {
    for (const char* const end : {" (", "; ", ": ", ". ", ", such as"})
        help = help.substr(0, std::min(help.find(end), help.size()));
    return std::string(help);
}

bool is_path_type(std::string_view type) {
    constexpr std::string_view types[] = {"TEXT", "FILE", "FOLDER", "DIR",
                                          "PATH", "RUN",  "IMAGE",  "CHECKPOINT"};
    return std::ranges::find(types, type) != std::end(types);
}

/// Of an option that takes one. The name of its type tells: `a|b` are words, text is a path unless its name
/// is below.
CompletedValue value_of(const std::string& command, const CLI::Option& option) {
    const std::string name = option.get_name(), type = option.get_type_name();
    if (type.find('|') != std::string::npos) {
        // A word in capitals stands for others: off|quick|FILE
        CompletedValue value{.words = words_in(type)};
        const auto removed = std::erase_if(value.words, is_path_type);
        value.files = removed > 0;
        return value;
    }
    if (name == "--recipe" || name == "recipe") return {.words = recipe_names(), .files = true};
    if (name == "--towers") return {.devices = true, .several = true};
    if (name == "--backend") return {.words = backend_names()};
    if (name == "--format") return {.words = words_in(format_keys())};
    if (name == "--data" || name == "source") return {.words = {"shapes"}, .files = true};
    if (name == "--shares") return {.words = {"auto", "even"}};
    if (name == "--feed") return {.words = {"auto", "resident", "streamed"}};
    if (name == "--tune") return {.words = {"auto", "off", "quick", "full"}, .files = true};
    if (name == "--precision") return {.words = words_in(precision_words())};
    if (name == "--wire") return {.words = {"fp32", "bf16"}};
    if (name == "--best-by") return {.words = metric_names()};
    if (name == "--on-device-loss") return {.words = {"continue", "stop"}};
    if (name == "--quirks" && command == "eval") return {.words = {"none", "padded-evaluation"}};
    if (name == "--quirks")
        return {.words = {"none", "all", "last-tower-loss", "step-schedule", "unordered-average",
                          "delete-run", "padded-evaluation", "divided-batch-time"},
                .several = true};
    for (const char* const other : {"--hold-out", "--fold", "--variants"})
        if (name == other) return {};
    return {.files = is_path_type(type)};
}

void add_commands(const CLI::App& app, std::vector<std::string> path, std::vector<CompletedCommand>& all) {
    CompletedCommand command{.path = path, .help = in_short(app.get_description())};
    const std::string name = command.name();
    for (const CLI::Option* const option : app.get_options()) {
        if (option->get_group().empty()) continue; // hidden
        if (option->get_positional()) {
            command.places.push_back(value_of(name, *option));
            command.places.back().repeats = option->get_items_expected_max() > 1;
            if (option->get_lnames().empty()) continue; // else it may also be given as a flag
        }
        CompletedFlag flag{.help = in_short(option->get_description())};
        for (const std::string& each : option->get_snames()) flag.names.push_back("-" + each);
        for (const std::string& each : option->get_lnames()) flag.names.push_back("--" + each);
        flag.takes_value = option->get_items_expected_max() > 0;
        flag.needs_value = option->get_items_expected_min() > 0;
        flag.repeats = option->get_items_expected_max() > 1;
        if (flag.takes_value) flag.value = value_of(name, *option);
        command.flags.push_back(flag);
    }
    std::vector<const CLI::App*> subcommands;
    for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; }))
        if (!each->get_group().empty()) subcommands.push_back(each);
    for (const CLI::App* const each : subcommands) command.subcommands.push_back(each->get_name());
    all.push_back(std::move(command));
    for (const CLI::App* const each : subcommands) {
        path.push_back(each->get_name());
        add_commands(*each, path, all);
        path.pop_back();
    }
}

int print(const CLI::App& app, const std::string& shell) {
    const std::vector<CompletedCommand> commands = completed_commands(app);
    const std::string script = shell == "bash"  ? bash_completion(commands)
                               : shell == "zsh" ? zsh_completion(commands)
                                                : fish_completion(commands);
    std::fwrite(script.data(), 1, script.size(), stdout);
    return 0;
}

} // namespace

std::string CompletedCommand::name() const { return fmt::format("{}", fmt::join(path, " ")); }

bool CompletedCommand::is_within(const CompletedCommand& parent) const {
    return path.size() == parent.path.size() + 1 &&
           std::equal(parent.path.begin(), parent.path.end(), path.begin());
}

std::vector<CompletedCommand> completed_commands(const CLI::App& app) {
    std::vector<CompletedCommand> commands;
    add_commands(app, {}, commands);
    return commands;
}

void add_completion(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand(
        "completion", "Print the script with which a shell completes commands, flags and values");
    const auto shell = std::make_shared<std::string>();
    command->add_option("shell", *shell, "Shell: bash, zsh or fish")
        ->required()
        ->check(one_of({"bash", "zsh", "fish"}))
        ->type_name("bash|zsh|fish");
    command->callback([shell, &app, &chosen] { chosen = [shell, &app] { return print(app, *shell); }; });
}

} // namespace towers
