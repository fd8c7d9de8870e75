#include "apps/towers/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

namespace towers {
namespace {

constexpr const char* helpers = R"zsh(
# A device; _sequence makes it a list of them
_towers_devices() {
    local -a ids
    ids=(${(f)"$($_towers_program devices 2>/dev/null |
        sed -n -e 's/^\(cpu\) .*/\1/p' -e 's/^\([a-z]*:[0-9]*\) .*/\1/p')"})
    compadd "$@" -a ids
}

# One of these words, or a path
_towers_words_or_files() {
    local -a expl choices
    choices=("$@")
    local ret=1
    _wanted words expl word compadd -a choices && ret=0
    _files && ret=0
    return ret
}

)zsh";

// The end of a command that has subcommands, as far as they are the same for all
constexpr const char* choose = R"zsh( \
        '1: :->command' \
        '*::: :->words' && ret=0
    case $state in
    command) _describe command commands && ret=0 ;;
    words)
        words=($line[1] $words)
        ((CURRENT += 1))
        case $line[1] in
)zsh";

/// `text` with a backslash before each of `special`, within single quotes
std::string escaped(std::string_view text, std::string_view special) {
    std::string out;
    for (const char c : text) {
        if (special.find(c) != std::string_view::npos) out += '\\';
        out += c == '\'' ? "'\\''" : std::string(1, c);
    }
    return out;
}

/// The action of _arguments that completes a value.
std::string action(const CompletedValue& value) {
    const std::string words = fmt::format("{}", fmt::join(value.words, " "));
    if (value.devices) return "_sequence _towers_devices";
    if (value.several) return fmt::format("_sequence compadd - {}", words);
    if (value.files && words.empty()) return "_files";
    // _arguments adds no arguments of its own after a blank.
    if (value.files) return " _towers_words_or_files " + words;
    return words.empty() ? " " : fmt::format("({})", words);
}

/// The flag as _arguments takes it: (-h --help){-h,--help}[what it does]
std::string specification(const CompletedFlag& flag) {
    std::string text;
    if (flag.repeats)
        text += "'*'";
    else if (flag.names.size() > 1)
        text += fmt::format("'({})'", fmt::join(flag.names, " "));
    const char* const value = flag.takes_value ? "=" : "";
    text += flag.names.size() > 1
                ? fmt::format("{{{}{}}}", fmt::join(flag.names, std::string(value) + ","), value)
                : flag.names[0] + value;
    text += fmt::format("'[{}]", escaped(flag.help, "[]\\:"));
    if (flag.takes_value)
        text += fmt::format("{}value:{}", flag.needs_value ? ":" : "::", action(flag.value));
    return text + "'";
}

std::string function_of(const CompletedCommand& command) {
    std::string name = "_towers";
    for (const std::string& word : command.path) name += "_" + word;
    return name;
}

} // namespace

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
    std::string script = "#compdef towers\n";
    script += "# Completion of towers' command line in zsh, written by `towers completion zsh`\n";
    script += helpers;
    for (const CompletedCommand& command : commands) {
        const bool parent = !command.subcommands.empty();
        script += function_of(command) + "() {\n";
        if (command.path.empty()) script += "    local _towers_program=$words[1]\n";
        if (parent) {
            script += "    local curcontext=$curcontext state line ret=1\n    local -A opt_args\n";
            script += "    local -a commands\n    commands=(\n";
            for (const CompletedCommand& other : commands)
                if (other.is_within(command))
                    script += fmt::format("        '{}:{}'\n", other.path.back(), escaped(other.help, ":"));
            script += "    )\n";
        }
        script += parent ? "    _arguments -C" : "    _arguments -S";
        for (const CompletedFlag& flag : command.flags) script += " \\\n        " + specification(flag);
        for (std::size_t i = 0; i < command.places.size(); ++i) {
            const CompletedValue& place = command.places[i];
            script += fmt::format(" \\\n        '{}:word:{}'", place.repeats ? "*" : fmt::to_string(i + 1),
                                  action(place));
        }
        if (parent) {
            script += choose;
            for (const std::string& next : command.subcommands)
                script += fmt::format("        {}) {}_{} && ret=0 ;;\n", next, function_of(command), next);
            script += "        esac\n        ;;\n    esac\n    return ret";
        }
        script += "\n}\n\n";
    }
    // The completion system loads the file as the function itself; a user may also source it.
    return script +
           "if [[ $funcstack[1] == _towers ]]; then _towers \"$@\"; else compdef _towers towers; fi\n";
}

} // namespace towers
