// What flags take, and what is said of a command line that is wrong: the flag, its value, what to give
// instead.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

namespace towers {

// These check a value and, where it is wrong, say what to give instead.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);
CLI::Validator any_number();
CLI::Validator one_of(std::initializer_list<std::string> words);

template<class T>
struct NumberOf {
    using Type = T;
};
template<class T>
struct NumberOf<std::optional<T>> {
    using Type = T;
};

/// Adds a flag for a number, or an optional one; a whole number is at least `least`. Left to itself CLI11
/// takes -1 and what is beyond 64 bits for some unsigned number, and 010 for 8.
template<class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& field, const std::string& help,
                        std::uint64_t least = 0) {
    using Number = typename NumberOf<T>::Type;
    CLI::Option* const option = command.add_option(name, field, help);
    if constexpr (std::is_floating_point_v<Number>)
        return option->transform(any_number());
    else // TOML, in which a run keeps its settings, has no numbers beyond 63 bits
        return option->transform(
            whole_number(least, std::min<std::uint64_t>(std::numeric_limits<Number>::max(),
                                                        std::numeric_limits<std::int64_t>::max())));
}

/// What is wrong, in one line, and whose --help to see. `app` has just thrown `error`.
std::string describe_mistake(CLI::App& app, const CLI::ParseError& error);

/// The same of a value that CLI11 lets pass: an empty one, as of a variable that a script has not set, or a
/// flag where a value was forgotten. "" when there is none.
std::string describe_odd_value(CLI::App& app);

} // namespace towers
