#include "backends/files/file.h"

#include "backends/error.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace towers {

namespace {

std::string_view remedy(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "free some space there or choose another place";
    case EFBIG:
        return "raise the limit on file sizes (ulimit -f) or choose another place";
    case EACCES:
    case EPERM:
        return "change its permissions or choose another place";
    case EROFS:
        return "it cannot be written to, so choose another place";
    case ENOENT:
    case ENOTDIR:
        return "check the path";
    case EISDIR:
        return "it is a folder, so name a file";
    case EMFILE:
    case ENFILE:
        return "raise the limit on open files (ulimit -n)";
    default:
        return "check the disk and the path";
    }
}

} // namespace

void throw_file_error(std::string_view verb, const std::filesystem::path& path, int error) {
    throw InputError(fmt::format("cannot {} {}: {}; {}", verb, path.string(),
                                 std::generic_category().message(error), remedy(error)));
}

int FileDescriptor::close() {
    if (number_ < 0) return 0;
    // On Linux, an interrupted close() has freed the descriptor already; closing it again could hit another
    // file.
    return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

// O_NONBLOCK: a pipe in place of a file is refused below instead of waited for.
InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!file_) throw_file_error("read", path, errno);
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) throw_file_error("read", path, errno);
    if (S_ISDIR(status.st_mode)) throw_file_error("read", path, EISDIR);
    if (!S_ISREG(status.st_mode))
        throw InputError(fmt::format("cannot read {}: it is not a regular file; name one", path.string()));
    size_ = std::uint64_t(status.st_size);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> target) const {
    while (!target.empty()) {
        const ssize_t got = ::pread(file_.get(), target.data(), target.size(), off_t(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_file_error("read", path_, errno);
        if (got == 0)
            throw InputError(fmt::format(
                "{} ends at byte {}, {} bytes early; is it still being written? try again or replace it",
                path_.string(), offset, target.size()));
        offset += std::uint64_t(got);
        target = target.subspan(std::size_t(got));
    }
}

std::string read_file(const std::filesystem::path& path) {
    const InputFile file(path);
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

void write_new_file(const std::filesystem::path& path, std::string_view bytes) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) throw_file_error("write", path, errno);
    if (const int error = write_all(file, std::as_bytes(std::span(bytes))))
        throw_file_error("write", path, error);
    if (const int error = file.close()) throw_file_error("write", path, error);
}

void sync_file_system_of(const std::filesystem::path& folder) {
    const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!descriptor || ::syncfs(descriptor.get()) != 0) throw_file_error("write", folder, errno);
}

int write_all(const FileDescriptor& file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        bytes = bytes.subspan(std::size_t(written));
    }
    return 0;
}

} // namespace towers
