#include "engine/files/output.h"

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

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
    if (is_standard_output(path)) {
        path_ = "standard output";
        return;
    }
    if (!is_special(path)) {
        regular_.emplace(path);
        return;
    }
    special_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!special_) throw_file_error("write", path, errno);
}

void OutputFile::write(std::span<const std::byte> bytes) {
    if (regular_) {
        regular_->write(bytes);
    } else if (special_) {
        if (const int error = write_all(special_, bytes)) throw_file_error("write", path_, error);
    } else if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
        throw_file_error("write", path_, errno);
}

void OutputFile::commit() {
    if (regular_)
        regular_->commit();
    else if (special_) {
        if (const int error = special_.close()) throw_file_error("write", path_, error);
    } else if (std::fflush(stdout) != 0)
        throw_file_error("write", path_, errno);
}

void write_output(const std::filesystem::path& path, std::string_view text) {
    OutputFile file(path);
    file.write(text);
    file.commit();
}

} // namespace towers
