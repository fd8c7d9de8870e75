#include "apps/towers/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace towers {
namespace {

// Bash ends words also at = and :, which --flag=value and cuda:0 contain. `value` is the part of a word to
// complete.
constexpr const char* begin = R"(_towers() {
    local words=() i
    for ((i = 0; i <= COMP_CWORD; ++i)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [:=]* ||
            (${COMP_WORDS[i - 1]} == *[:=] && ${COMP_WORDS[i]} != -*) ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    local last=$((${#words[@]} - 1)) flag='' value
    value=${words[last]}
    case $value in
    --*=*) flag=${value%%=*} value=${value#*=} ;;
    *) ((last > 1)) && flag=${words[last - 1]} ;;
    esac

    local command='' word
    for word in "${words[@]:1:last-1}"; do
        case $command/$word in
        )";

constexpr const char* middle = R"() command+=${command:+ }$word ;;
        esac
    done

    local flags='' offered='' files='' devices='' several='' start=''
    case $command in
)";

constexpr const char* end = R"(    esac

    compopt +o default 2>/dev/null
    COMPREPLY=()
    if [[ $value == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$value")
        return
    fi
    if [[ $devices ]]; then
        offered=$("${1/#\~/$HOME}" devices 2>/dev/null | sed -n -e 's/^\(cpu\) .*/\1/p' -e 's/^\([a-z]*:[0-9]*\) .*/\1/p')
    fi
    if [[ $several ]]; then
        [[ $value == *,* ]] && start=${value%,*},
        compopt -o nospace 2>/dev/null
    fi
    mapfile -t COMPREPLY < <(compgen -P "$start" -W "$offered" -- "${value#"$start"}")
    if [[ $files && $offered ]]; then
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$value")
        compopt -o filenames 2>/dev/null
    elif [[ $files ]]; then
        compopt -o default 2>/dev/null # Readline's own, which knows ~
    fi
    # Bash replaces only what follows the last : of the word.
    if [[ $COMP_WORDBREAKS == *:* && $value == *:* ]]; then
        start=${value%"${value##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$start"}")
    fi
}
complete -o bashdefault -o default -F _towers towers
)";

/// Assignments that say what to offer; "" for nothing.
std::string offer(const CompletedValue& value) {
    std::string text;
    if (!value.words.empty()) text += fmt::format(" offered='{}'", fmt::join(value.words, " "));
    if (value.files) text += " files=yes";
    if (value.devices) text += " devices=yes";
    if (value.several) text += " several=yes";
    return text;
}

/// What may stand in any of a command's places.
CompletedValue anywhere(const CompletedCommand& command) {
    CompletedValue all{.words = command.subcommands};
    for (const CompletedValue& place : command.places) {
        all.words.insert(all.words.end(), place.words.begin(), place.words.end());
        all.files = all.files || place.files;
    }
    return all;
}

} // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
    std::string script =
        "# Completion of towers' command line in bash, written by `towers completion bash`\n";
    script += begin;
    std::vector<std::string> steps; // from a command to its subcommand
    for (const CompletedCommand& command : commands)
        for (const std::string& next : command.subcommands)
            steps.push_back(fmt::format("'{}/{}'", command.name(), next));
    script += fmt::format("{}", fmt::join(steps, " | ")) + middle;
    for (const CompletedCommand& command : commands) {
        std::vector<std::string> names;
        for (const CompletedFlag& flag : command.flags)
            names.insert(names.end(), flag.names.begin(), flag.names.end());
        script += fmt::format("    '{}')\n        flags='{}'\n        case $flag in\n", command.name(),
                              fmt::join(names, " "));
        for (const CompletedFlag& flag : command.flags) {
            if (!flag.takes_value) continue;
            // After a flag that may stand alone there may also be the next flag.
            const std::string text = (flag.needs_value ? " flags=''" : "") + offer(flag.value);
            script += fmt::format("        {}){} ;;\n", fmt::join(flag.names, " | "), text);
        }
        script += fmt::format("        *){} ;;\n        esac\n        ;;\n", offer(anywhere(command)));
    }
    return script + end;
}

} // namespace towers
