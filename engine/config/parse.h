// TOML's text as the library's tables.
#pragma once

#include <string_view>
#include <toml++/toml.h>

namespace towers {

/// How deep keys and brackets may nest. The library limits brackets only, and whatever walks down a key of
/// thousands of parts, such as the library when it frees the tables, overflows the stack.
constexpr unsigned deepest_toml = 100;

/// Reads TOML. Throws toml::parse_error, also where it nests deeper than deepest_toml.
toml::table parse_tables(std::string_view text);

} // namespace towers
