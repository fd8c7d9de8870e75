// Comma-separated values: https://www.rfc-editor.org/rfc/rfc4180
#pragma once

#include <string>

namespace towers {

/// A field of a line.
inline std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
}

} // namespace towers
