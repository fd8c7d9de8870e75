#include "engine/config/parse.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

namespace towers {
namespace {

/// The place after the text in quotes that begins here, or after its line if it does not end there.
std::size_t after_quotes(std::string_view text, std::size_t begin) {
    const char quote = text[begin];
    const std::string thrice(3, quote);
    const bool block = text.substr(begin).starts_with(thrice);
    const std::string end = block ? thrice : std::string(1, quote);
    std::size_t at = begin + end.size();
    for (; at < text.size() && !text.substr(at).starts_with(end); ++at) {
        if (!block && text[at] == '\n') return at;
        if (quote == '"' && text[at] == '\\') ++at;
    }
    at += end.size();
    while (block && at < text.size() && text[at] == quote) ++at; // a block may hold quotes at its end
    return at;
}

/// Throws toml::parse_error where keys and brackets nest too deep. Every dot counts until its key's value
/// ends; one in a number does no harm.
void require_shallow(std::string_view text) {
    unsigned line = 1, depth = 0;
    std::vector<unsigned> dots{0}; // within each open bracket, and outside
    const auto end_key = [&] { depth -= std::exchange(dots.back(), 0); };
    for (std::size_t at = 0; at < text.size(); ++at) {
        switch (text[at]) {
        case '#':
            at = std::min(text.find('\n', at), text.size()) - 1;
            break;
        case '"':
        case '\'': {
            const std::size_t end = std::min(after_quotes(text, at), text.size());
            line += unsigned(std::ranges::count(text.substr(at, end - at), '\n'));
            at = end - 1;
            break;
        }
        case '.':
            ++depth, ++dots.back();
            break;
        case '[':
        case '{':
            ++depth, dots.push_back(0);
            break;
        case ']':
        case '}':
            if (dots.size() == 1) break; // wrong, as the library will say
            end_key();
            --depth, dots.pop_back();
            break;
        case ',':
            end_key();
            break;
        case '\n':
            ++line;
            if (dots.size() == 1) end_key();
            break;
        }
        if (depth > deepest_toml)
            throw toml::parse_error(
                fmt::format("keys and brackets nest more than {} deep", deepest_toml).c_str(),
                toml::source_position{line, 1});
    }
}

} // namespace

toml::table parse_tables(std::string_view text) {
    require_shallow(text);
    return toml::parse(text);
}

} // namespace towers
