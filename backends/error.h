#pragma once

#include <stdexcept>

namespace towers {

/// Something outside the program is wrong: a file, a value, a full disk. The message tells the user in one
/// line what is wrong, where, and what to do.
class InputError : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The user asked for something that does not exist or does not fit together. The message is like an
/// InputError's.
class UsageError : public InputError {
    using InputError::InputError;
};

} // namespace towers
