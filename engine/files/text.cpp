#include "engine/files/text.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace towers {

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return text;
}

std::string as_utf8(const std::string& text) {
    using nlohmann::json;
    return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

std::string as_printable(const std::string& text) {
    const std::string all = as_utf8(text);
    std::string printable;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto byte = static_cast<unsigned char>(all[i]);
        // U+0080 to U+009F are control characters too; in UTF-8 they are 0xC2 and one more byte.
        const bool two = byte == 0xc2 && static_cast<unsigned char>(all[i + 1]) < 0xa0;
        printable += two || std::iscntrl(byte) ? '?' : all[i];
        if (two) ++i;
    }
    return printable;
}

std::vector<std::string> lines_in(std::string_view text) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    std::vector<std::string> lines;
    for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
        end = std::min(text.find('\n', begin), text.size());
        std::string_view line = text.substr(begin, end - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (!line.empty()) lines.emplace_back(line);
    }
    return lines;
}

} // namespace towers
