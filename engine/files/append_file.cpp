#include "engine/files/append_file.h"

#include <cerrno>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace towers {

void AppendFile::append(std::string_view entry) {
    entries_.append(entry);
    write();
    constexpr std::size_t most = 1024 * 1024; // bytes to keep in case the disk drops what it accepted
    if (entries_.size() > most) sync();
}

void AppendFile::write() {
    if (written_ == entries_.size()) return;
    if (!file_)
        file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    struct stat before {};
    if (!file_ || ::fstat(file_.get(), &before) != 0) throw_file_error("write", path_, errno);
    if (written_ == 0) unsynced_ = std::uint64_t(before.st_size);

    const int error = write_all(file_, std::as_bytes(std::span(entries_)).subspan(written_));
    if (error == 0) {
        written_ = entries_.size();
        return;
    }
    // An incomplete entry would spoil the next one. Removing it may fail too, so readers must expect one.
    [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), before.st_size);
    throw_file_error("write", path_, error);
}

void AppendFile::sync() {
    write();
    if (entries_.empty()) return;
    if (::fdatasync(file_.get()) != 0) {
        const int error = errno;
        // The system may have dropped what it could not write, so write it again, unless another program
        // added something.
        struct stat now {};
        if (::fstat(file_.get(), &now) == 0 && std::uint64_t(now.st_size) == unsynced_ + written_ &&
            ::ftruncate(file_.get(), off_t(unsynced_)) == 0)
            written_ = 0;
        throw_file_error("write", path_, error);
    }
    entries_.clear();
    written_ = 0;
}

} // namespace towers
