// Lists as users type them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// The parts of a list between separators, without surrounding blanks. Parts may be empty: there is always
/// one more than there are separators.
inline std::vector<std::string> split(std::string_view list, char separator) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(separator, begin), list.size());
        std::string_view part = list.substr(begin, end - begin);
        part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
        part = part.substr(0, part.find_last_not_of(' ') + 1);
        parts.emplace_back(part);
        begin = end + 1;
    }
    return parts;
}

} // namespace towers
