// Text from outside the program.
#pragma once

#include <string>

namespace towers {

/// Replaces each byte that is not UTF-8 by U+FFFD. Names of files and devices may have any bytes; JSON, TOML
/// and safetensors may not.
std::string as_utf8(const std::string& text);

/// as_utf8() with `?` in place of each control character, so that a terminal shows the text and obeys nothing
/// in it.
std::string as_printable(const std::string& text);

} // namespace towers
