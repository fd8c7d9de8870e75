// Preload this library into a program to log its file operations to $DISK_LOG, in order: `write NAME`, `sync
// NAME`, `rename NEW_NAME`. A power cut would lose what was not synced.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

void note(const char* what, const char* path) {
    const char* const log = std::getenv("DISK_LOG");
    if (log == nullptr) return;
    const char* const slash = std::strrchr(path, '/');
    char line[512];
    const int length = std::snprintf(line, sizeof line, "%s %s\n", what, slash != nullptr ? slash + 1 : path);
    const int file = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    syscall(SYS_write, file, line, std::size_t(length)); // not the write() below
    ::close(file);
}

void note(const char* what, int file) {
    char link[64], path[4096];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = ::readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    note(what, path);
}

template<class Function>
Function* next(const char* name, Function*) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
    note("write", file);
    return next("write", write)(file, bytes, count);
}

int fsync(int file) {
    note("sync", file);
    return next("fsync", fsync)(file);
}

int fdatasync(int file) {
    note("sync", file);
    return next("fdatasync", fdatasync)(file);
}

int rename(const char* from, const char* to) noexcept {
    note("rename", to);
    return next("rename", rename)(from, to);
}
}
