#pragma once

#include <stdexcept>

namespace towers {

/// Something outside the program is wrong: a file, a value, the space on a disk. The message is one line for
/// the user: what is wrong, where, and what to do.
class InputError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace towers
