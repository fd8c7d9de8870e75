// Text from outside the program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// With small letters for A to Z.
std::string lower(std::string text);

/// Replaces each byte that is not UTF-8 by U+FFFD. Names of files and devices may have any bytes; JSON, TOML
/// and safetensors may not.
std::string as_utf8(const std::string& text);

/// as_utf8() with `?` in place of each control character, so that a terminal shows the text and obeys nothing
/// in it.
std::string as_printable(const std::string& text);

/// The lines of a text, without what ends them on any system (`\n` or `\r\n`) and without the byte order mark
/// that some programs put before the first one. Leaves out empty ones.
std::vector<std::string> lines_in(std::string_view text);

/// `a, b, c`: what `text` says of each element. (Views of the standard library do not compile with clang 14.)
template<class Range, class Text>
std::string listed(const Range& range, const Text& text) {
    std::string list;
    for (const auto& each : range)
        list += fmt::format("{}{}", list.empty() ? "" : ", ", std::invoke(text, each));
    return list;
}

/// `a, b, c and 2 more`: the same of the first elements, and how many others there are.
template<class Element, class Text>
std::string listed_first(std::size_t most, const std::vector<Element>& elements, const Text& text) {
    const std::string list = listed(std::span(elements).first(std::min(most, elements.size())), text);
    return elements.size() > most ? fmt::format("{} and {} more", list, elements.size() - most) : list;
}

} // namespace towers
