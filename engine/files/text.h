// Text that comes from elsewhere.
#pragma once

#include <string>

namespace towers {

/// The text with U+FFFD in place of each byte that is not UTF-8. Names of files and devices may have any
/// bytes; JSON, TOML and safetensors may not.
std::string as_utf8(const std::string& text);

/// as_utf8() with `?` in place of each control character, so that a terminal shows it and obeys nothing in
/// it.
std::string as_printable(const std::string& text);

} // namespace towers
