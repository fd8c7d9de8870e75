// Whether a message says what a test expects.
#pragma once

#include <doctest/doctest.h>
#include <string>

namespace towers::test {

/// Shows a message that does not contain the part.
inline bool says(const std::string& message, const std::string& part) {
    const bool found = message.find(part) != std::string::npos;
    if (!found) MESSAGE(message);
    return found;
}

} // namespace towers::test
