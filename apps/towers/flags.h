// The values that flags take, and the messages about a wrong command line: the flag, its value and what to
// give instead.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace towers {

// These check a value. If it is wrong, they say what to give instead.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
CLI::Validator any_number();
CLI::Validator one_of(std::initializer_list<std::string> words);
CLI::Validator on_or_off();

/// Adds a flag that is `on` alone, and takes `on` or `off`. For a command without words, which would be taken
/// for its value; others have add_flag(), and switch_words() in main() makes both alike.
CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& field, const std::string& help);

/// The words of a command line with `--flag on` and `--flag off` written as `--flag=on` and `--flag=off`.
std::vector<std::string> switch_words(std::vector<std::string> words);

template<class T>
struct NumberOf {
    using Type = T;
};
template<class T>
struct NumberOf<std::optional<T>> {
    using Type = T;
};

/// Adds a flag for a number or an optional number; a whole number must be at least `least`. On its own, CLI11
/// reads -1 and numbers beyond 64 bits as some unsigned number, and 010 as 8.
template<class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& field, const std::string& help,
                        std::uint64_t least = 0) {
    using Number = typename NumberOf<T>::Type;
    CLI::Option* const option = command.add_option(name, field, help);
    if constexpr (std::is_floating_point_v<Number>)
        return option->transform(any_number());
    else // a run keeps its settings in TOML, which has no numbers beyond 63 bits
        return option->transform(
            whole_number(least, std::min<std::uint64_t>(std::numeric_limits<Number>::max(),
                                                        std::numeric_limits<std::int64_t>::max())));
}

/// One line about the first word that no command knows, and which --help to read; "" if there is none.
std::string describe_unknown_word(CLI::App& app);

/// One line that says what is wrong and which --help to read. `app` has just thrown `error`.
std::string describe_mistake(CLI::App& app, const CLI::ParseError& error);

/// The same for a value that CLI11 accepts: an empty one, such as a variable that a script did not set, or a
/// flag where the user forgot a value. "" if there is none.
std::string describe_odd_value(CLI::App& app);

/// `; try a smaller --batch`, or what else the chosen command has for a device without enough memory; may be
/// empty.
std::string memory_advice(CLI::App& app);

/// `; if it is lost again, try a smaller --micro-batch`, or what else the chosen command has for a device
/// whose driver does not let kernels work that long; may be empty.
std::string lost_advice(CLI::App& app);

} // namespace towers
