#include "apps/towers/ending.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>

namespace towers {

int report(int code, std::string message) {
    for (char& c : message) // such as a newline in a file name
        if (std::iscntrl(static_cast<unsigned char>(c))) c = ' ';
    std::fputs(fmt::format("towers: {}\n", message).c_str(), stderr); // fmt would throw if it is closed
    return code;
}

void end_at_once(int code) {
    std::fflush(nullptr);
    std::_Exit(code);
}

} // namespace towers
