#include "apps/towers/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers {
namespace {

constexpr const char* begin = R"(
# Whether the command before the cursor is this one
function __towers_at
    set -l command ''
    for word in (commandline -opc)[2..-1]
        switch "$command/$word"
            case )";

constexpr const char* middle = R"(
                set command (string trim -- "$command $word")
        end
    end
    test "$command" = "$argv"
end

function __towers_words
    string join \n $argv
end

function __towers_devices
    set -l program (commandline -opc)[1]
    $program devices 2>/dev/null | string match -r '^(?:cpu|[a-z]+:[0-9]+)(?= )'
end

complete -c towers -f
)";

/// A text in single quotes
std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + '\'';
}

/// The arguments of `complete` that offer this.
std::string offer(const CompletedValue& value) {
    const std::string words = fmt::format("{}", fmt::join(value.words, " "));
    std::string text;
    if (value.devices)
        text = " -a '(__fish_complete_list , __towers_devices)'";
    else if (value.several)
        text = fmt::format(" -a '(__fish_complete_list , \"__towers_words {}\")'", words);
    else if (!words.empty())
        text = fmt::format(" -a '{}'", words);
    if (value.files) text += " -F";
    return text;
}

} // namespace

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
    std::string script =
        "# Completion of towers' command line in fish, written by `towers completion fish`\n";
    script += begin;
    std::vector<std::string> steps; // from a command to its subcommand
    for (const CompletedCommand& command : commands)
        for (const std::string& next : command.subcommands)
            steps.push_back(quoted(fmt::format("{}/{}", command.name(), next)));
    script += fmt::format("{}", fmt::join(steps, " ")) + middle;
    for (const CompletedCommand& command : commands) {
        const std::string at =
            fmt::format("complete -c towers -n {}",
                        quoted("__towers_at" + (command.path.empty() ? "" : " " + command.name())));
        for (const CompletedCommand& other : commands)
            if (other.is_within(command))
                script += fmt::format("{} -a {} -d {}\n", at, other.path.back(), quoted(other.help));
        for (const CompletedValue& place : command.places) script += at + offer(place) + '\n';
        for (const CompletedFlag& flag : command.flags) {
            script += at;
            for (const std::string& name : flag.names)
                script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            if (flag.needs_value) script += flag.value.files ? " -r" : " -x";
            script += offer(flag.value) + " -d " + quoted(flag.help) + '\n';
        }
    }
    return script;
}

} // namespace towers
