// Preload this library into a program: its file systems then lack the kinds of locks that $NO_LOCKS names
// (`flock`, `fcntl`), and asking for one gives the error $NO_LOCKS_ERROR; if $NO_LOCKS_TIMES is set, only so
// many times.
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

bool lacks(const char* kind) {
    const char* const kinds = std::getenv("NO_LOCKS");
    if (kinds == nullptr || std::strstr(kinds, kind) == nullptr) return false;
    static int asked = 0;
    const char* const times = std::getenv("NO_LOCKS_TIMES");
    if (times != nullptr && asked++ >= std::atoi(times)) return false;
    errno = std::atoi(std::getenv("NO_LOCKS_ERROR"));
    return true;
}

} // namespace

extern "C" {

int flock(int file, int operation) noexcept {
    return lacks("flock") ? -1 : int(syscall(SYS_flock, file, operation));
}

int fcntl(int file, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void* const argument = va_arg(arguments, void*);
    va_end(arguments);
    const bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK;
    return locks && lacks("fcntl") ? -1 : int(syscall(SYS_fcntl, file, command, argument));
}
}
