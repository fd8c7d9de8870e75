#include "apps/towers/hint.h"

#include <cctype>
#include <cerrno>
#include <fmt/format.h>
#include <string_view>

namespace towers {
namespace {

std::string quoted(const std::string& word) {
    const auto is_plain = [](unsigned char c) {
        return std::isalnum(c) || std::string_view("_-./:,=+@%").find(char(c)) != std::string_view::npos;
    };
    bool plain = !word.empty();
    std::string text = "'";
    for (const char c : word) {
        plain = plain && is_plain(static_cast<unsigned char>(c));
        if (c == '\'')
            text += "'\\''"; // closes the quotes, adds one and opens them again
        else
            text += c;
    }
    return plain ? word : text + "'";
}

} // namespace

std::string hint(const std::vector<std::string>& arguments) {
    std::string line = quoted(program_invocation_name); // glibc's: argv[0]
    for (const std::string& argument : arguments) line += fmt::format(" {}", quoted(argument));
    return line;
}

std::string path_argument(const std::string& path) {
    return fmt::format("{}{}", path.starts_with('-') ? "./" : "", path);
}

} // namespace towers
