#include "engine/files/output.h"

#include "engine/files/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace towers {

namespace {

/// Whether the path is a device, pipe or socket, which has no content to replace.
bool is_special(const std::filesystem::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

} // namespace

bool is_standard_output(const std::filesystem::path& path) {
    struct stat named {
    }, output{};
    if (path == "-") return true;
    if (::stat(path.c_str(), &named) != 0 || ::fstat(STDOUT_FILENO, &output) != 0) return false;
    // Two streams to a device such as /dev/null are independent.
    if (S_ISCHR(named.st_mode) && ::isatty(STDOUT_FILENO) == 0) return false;
    return named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

void check_output(const std::filesystem::path& path) {
    if (is_standard_output(path)) return;
    if (!is_special(path))
        AtomicFile probe(path);
    else if (::access(path.c_str(), W_OK) != 0) // not open(), which a pipe's other end would notice
        throw_file_error("write", path, errno);
}

void write_output(const std::filesystem::path& path, std::string_view text) {
    if (is_standard_output(path)) {
        if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
            throw_file_error("write", "standard output", errno);
        return;
    }
    if (!is_special(path)) return write_file_atomically(path, text);
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) throw_file_error("write", path, errno);
    if (const int error = write_all(file, std::as_bytes(std::span(text))))
        throw_file_error("write", path, error);
    if (const int error = file.close()) throw_file_error("write", path, error);
}

} // namespace towers
