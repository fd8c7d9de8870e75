// What a shell can complete: the commands, their flags and the values of these, read from the command line's
// own description, and the scripts that bash, zsh and fish take. `towers completion` prints them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace towers {

/// What may stand in a place of the command line.
struct CompletedValue {
    std::vector<std::string> words; ///< these; letters, digits and dashes only
    bool files = false;             ///< a path
    bool devices = false;           ///< what `towers devices` lists
    bool several = false;           ///< a list with commas between
    bool repeats = false;           ///< more words of this kind may follow
};

struct CompletedFlag {
    std::vector<std::string> names; ///< "-h", "--help"
    std::string help;               ///< a few words
    bool takes_value = false, needs_value = false, repeats = false;
    CompletedValue value;
};

struct CompletedCommand {
    std::vector<std::string> path; ///< "data", "describe"; empty: `towers` itself
    std::string help;              ///< a few words
    std::vector<CompletedFlag> flags;
    std::vector<std::string> subcommands;
    std::vector<CompletedValue> places; ///< of the words that belong to no flag

    std::string name() const;                             ///< "data describe"
    bool is_within(const CompletedCommand& parent) const; ///< one of its subcommands
};

/// All commands of `app`, each before its subcommands.
std::vector<CompletedCommand> completed_commands(const CLI::App& app);

std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

} // namespace towers
