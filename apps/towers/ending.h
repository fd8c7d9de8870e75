// How the program ends.
#pragma once

#include <string>

namespace towers {

constexpr int work_failed = 1, command_line_wrong = 2;

/// Prints the message as one line on stderr and returns the code.
int report(int code, std::string message);

/// Ends without the usual clean-up, which would never finish while a thread hangs in a driver.
[[noreturn]] void end_at_once(int code);

} // namespace towers
