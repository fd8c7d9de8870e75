// How the program ends.
#pragma once

#include <string>

namespace towers {

constexpr int work_failed = 1, command_line_wrong = 2;

/// Prints the message as one line on stderr and returns the code.
int report(int code, std::string message);

/// Without the usual clean-up: a thread that hangs in a driver would keep that from coming to an end.
[[noreturn]] void end_at_once(int code);

} // namespace towers
