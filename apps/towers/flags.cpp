#include "apps/towers/flags.h"

#include "engine/nearest.h"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <utility>
#include <vector>

namespace towers {
namespace {

/// The chosen commands, each within the one before it: `towers`, `data`, `shapes`.
std::vector<CLI::App*> chosen_commands(CLI::App& app) {
    std::vector<CLI::App*> commands{&app};
    while (!commands.back()->get_subcommands().empty())
        commands.push_back(commands.back()->get_subcommands()[0]);
    return commands;
}

/// `message`, and the command line that shows `command`'s help.
std::string with_help(const std::string& message, const CLI::App& command) {
    std::string name = command.get_name();
    for (const CLI::App* parent = command.get_parent(); parent != nullptr; parent = parent->get_parent())
        name = parent->get_name() + " " + name;
    return fmt::format("{}; see '{} --help'", message, name);
}

/// "there is no flag '--barch', but there is '--batch'"
std::string there_is_no(const char* what, const std::string& word, const std::vector<std::string>& names) {
    const std::string message = fmt::format("there is no {} '{}'", what, word);
    const std::string meant = nearest(word, names);
    return meant.empty() ? message : fmt::format("{}, but there is '{}'", message, meant);
}

std::string describe_missing(const CLI::App& command) {
    for (const CLI::Option* const option : command.get_options())
        if (option->get_required() && option->empty())
            return fmt::format("give {}{}", option->get_positional() ? "the " : "", option->get_name());
    std::vector<std::string> names;
    for (const CLI::App* const each : command.get_subcommands({})) names.push_back(each->get_name());
    return fmt::format("give a subcommand: {}", fmt::join(names, ", "));
}

/// The flags that CLI11's message names; its errors hold them only as text.
std::vector<std::string> flags_in(std::string_view text) {
    std::vector<std::string> flags;
    for (std::size_t begin = 0; (begin = text.find("--", begin)) != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(": ", begin), text.size());
        flags.emplace_back(text.substr(begin, end - begin));
        begin = end;
    }
    return flags;
}

/// What the option's validator says about this value. An empty value is always wrong.
std::string advice(CLI::Option& option, const std::string& value) {
    try {
        return (*option.get_validator())(value);
    } catch (const CLI::OptionNotFound&) {
        return "give a value";
    }
}

template<class Kind>
bool is(const CLI::ParseError& error) {
    return dynamic_cast<const Kind*>(&error) != nullptr;
}

} // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
    return CLI::Validator(
        [least, most](std::string& text) -> std::string {
            std::uint64_t value = 0;
            const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool whole = error != std::errc::invalid_argument && rest == text.data() + text.size();
            if (!whole || value < least) return fmt::format("give a whole number of {} or more", least);
            if (error != std::errc{} || value > most) return fmt::format("give at most {}", most);
            text = fmt::to_string(value);
            return {};
        },
        "");
}

CLI::Validator any_number() {
    return CLI::Validator(
        [](std::string& text) -> std::string { return CLI::Number(text).empty() ? "" : "give a number"; },
        "");
}

CLI::Validator one_of(std::initializer_list<std::string> words) {
    return CLI::Validator(
        [words = std::vector(words)](std::string& text) -> std::string {
            if (std::ranges::find(words, text) != words.end()) return {};
            return fmt::format("give {}", fmt::join(words, " or "));
        },
        "");
}

CLI::Validator on_or_off() {
    return CLI::Validator(
        [](std::string& word) -> std::string {
            return word == "on" || word == "off" || word == "true" || word == "false" ? "" : "give on or off";
        },
        "");
}

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& field, const std::string& help) {
    const auto take = [&field](const CLI::results_t& words) {
        field = words[0] != "off" && words[0] != "false"; // also true for a flag without a value
        return true;
    };
    return command.add_option(name, take, help)
        ->check(on_or_off())
        ->type_name("on|off")
        ->expected(0, 1)
        ->default_str(field ? "on" : "");
}

std::vector<std::string> switch_words(std::vector<std::string> words) {
    std::vector<std::string> joined;
    for (std::string& word : words) {
        const bool follows_flag = !joined.empty() && joined.back().starts_with("--") &&
                                  joined.back() != "--" && joined.back().find('=') == std::string::npos;
        if ((word == "on" || word == "off") && follows_flag)
            joined.back() += '=' + word;
        else
            joined.push_back(std::move(word));
    }
    return joined;
}

std::string describe_unknown_word(CLI::App& app) {
    const std::vector<CLI::App*> commands = chosen_commands(app);
    for (const CLI::App* const command : commands)
        for (const std::string& word : command->remaining()) {
            if (word == "--") continue;
            std::vector<std::string> names;
            if (word.starts_with('-')) {
                const std::string flag = word.substr(0, word.find('='));
                if (command != commands.back() && commands.back()->get_option_no_throw(flag) != nullptr)
                    return with_help(fmt::format("{}: give it after '{}'", flag, commands.back()->get_name()),
                                     *command);
                for (const CLI::Option* const option : command->get_options())
                    names.push_back(option->get_name());
                return with_help(there_is_no("flag", flag, names), *command);
            }
            if (command != commands.back() || command->get_require_subcommand_min() == 0)
                return with_help(fmt::format("'{}' does not belong to any flag", word), *commands.back());
            for (const CLI::App* const each : command->get_subcommands({})) names.push_back(each->get_name());
            return with_help(there_is_no("command", word, names), *command);
        }
    return {};
}

std::string describe_mistake(CLI::App& app, const CLI::ParseError& error) {
    CLI::App& last = *chosen_commands(app).back();
    const std::string text = error.what();
    const std::vector<std::string> flags = flags_in(text);
    if (const std::string odd = describe_odd_value(app); !odd.empty()) return odd;
    const auto say = [&](const std::string& message) { return with_help(message, last); };
    if (CLI::Option* const option = flags.empty() ? nullptr : last.get_option_no_throw(flags[0])) {
        const auto wrong = [&](const std::string& value, const std::string& what) {
            return say(fmt::format("{} '{}': {}", flags[0], value, what));
        };
        if (is<CLI::ValidationError>(error))
            for (const std::string& value : option->results())
                if (const std::string what = advice(*option, value); !what.empty()) return wrong(value, what);
        if (is<CLI::ConversionError>(error)) return wrong(option->results()[0], "give on or off");
        if (is<CLI::ArgumentMismatch>(error))
            return say(option->count() > 1
                           ? fmt::format("{}: give it once, not {} times", flags[0], option->count())
                           : fmt::format("{}: {}", flags[0], advice(*option, "")));
    }
    // The missing subcommand may be there, but misspelt.
    if (const std::string unknown = describe_unknown_word(app); !unknown.empty()) return unknown;
    if (is<CLI::ExcludesError>(error) && flags.size() == 2)
        return say(fmt::format("{} and {}: give one of them", flags[0], flags[1]));
    if (is<CLI::ExcludesError>(error) && flags.size() == 1)
        return say(fmt::format("{}: it is given without the flag already; give it once", flags[0]));
    if (is<CLI::RequiresError>(error) && flags.size() == 2)
        return say(fmt::format("{}: give {} too", flags[0], flags[1]));
    if (is<CLI::RequiredError>(error)) return say(describe_missing(last));
    return say(text);
}

std::string describe_odd_value(CLI::App& app) {
    for (CLI::App* const command : chosen_commands(app))
        for (const CLI::Option* const option : command->get_options())
            for (const std::string& value : option->results()) {
                const std::string& name = option->get_name();
                if (value.empty() && option->get_expected_min() > 0)
                    return with_help(name + ": its value is empty", *command);
                if (value.starts_with('-') &&
                    command->get_option_no_throw(value.substr(0, value.find('='))) != nullptr)
                    return with_help(fmt::format("{}: give a value before {}", name, value), *command);
            }
    return {};
}

std::string memory_advice(CLI::App& app) {
    const CLI::App& command = *chosen_commands(app).back();
    const CLI::Option* const feed = command.get_option_no_throw("--feed");
    if (feed != nullptr && feed->count() > 0 && feed->results()[0] == "resident")
        return "; try --feed streamed or a smaller --batch";
    if (command.get_option_no_throw("--batch") != nullptr) return "; try a smaller --batch";
    if (command.get_option_no_throw("--towers") != nullptr) return "; choose other devices with --towers";
    return {};
}

std::string lost_advice(CLI::App& app) {
    const CLI::App& command = *chosen_commands(app).back();
    for (const char* const flag : {"--micro-batch", "--batch"})
        if (command.get_option_no_throw(flag) != nullptr)
            return fmt::format("; if it is lost again, try a smaller {}", flag);
    return {};
}

} // namespace towers
