#pragma once

#include <stdexcept>

namespace towers {

/// Something outside the program is wrong: a file, a value, the space on a disk. The message is one line for
/// the user: what is wrong, where, and what to do.
class InputError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What the user asked for does not exist or does not fit together; said like an InputError.
class UsageError : public InputError {
    using InputError::InputError;
};

} // namespace towers
