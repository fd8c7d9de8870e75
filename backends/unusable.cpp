#include "backends/unusable.h"

#include <sstream>

namespace towers {

std::string why_unusable(std::string_view id, const char* variable) {
    std::istringstream lines(variable != nullptr ? variable : "");
    for (std::string line; std::getline(lines, line);)
        if (const std::size_t tab = line.find('\t'); tab != line.npos && line.substr(0, tab) == id)
            return line.substr(tab + 1);
    return "";
}

} // namespace towers
