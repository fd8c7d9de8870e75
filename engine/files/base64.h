// Bytes as text that a page can hold: https://www.rfc-editor.org/rfc/rfc4648#section-4
#pragma once

#include <string>
#include <string_view>

namespace towers {

std::string base64(std::string_view bytes);

} // namespace towers
