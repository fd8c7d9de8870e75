#include "backends/files/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <random>
#include <system_error>
#include <unistd.h>

namespace towers {

namespace {

constexpr std::string_view mark = ".tmp-";

// A rename lasts only once the folder is on the disk. Some file systems cannot sync a folder, and a folder
// may be writable but not readable; the file is good all the same.
void sync_folder(const std::filesystem::path& file) {
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!descriptor) return;
    if (::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
        throw_file_error("write", folder, errno);
}

/// The end of a chain of symbolic links, even if there is no file yet.
std::filesystem::path follow_links(std::filesystem::path path) {
    constexpr int longest_chain = 40; // Linux's limit
    std::error_code error;
    for (int links = 0; std::filesystem::is_symlink(path, error); ++links) {
        if (links == longest_chain) throw_file_error("write", path, ELOOP);
        const std::filesystem::path target = std::filesystem::read_symlink(path, error);
        if (error) throw_file_error("write", path, error.value());
        path = path.parent_path() / target;
    }
    return path;
}

} // namespace

// Several threads and programs, also on several machines, may write the same path at once.
AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(follow_links(path)),
      temporary_(fmt::format("{}{}{}", path_.string(), mark, std::random_device()())) {
    std::error_code unknown; // opening the file will report it
    if (std::filesystem::is_directory(path, unknown)) throw_file_error("write", path_, EISDIR);
    file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_) throw_file_error("write", path_, errno);
}

AtomicFile::~AtomicFile() {
    if (!renamed_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    if (const int error = write_all(file_, bytes)) throw_file_error("write", path_, error);
}

void AtomicFile::commit() {
    if (::fsync(file_.get()) != 0) throw_file_error("write", path_, errno);
    if (const int error = file_.close()) throw_file_error("write", path_, error);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_file_error("write", path_, errno);
    renamed_ = true;
    sync_folder(path_);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
    AtomicFile file(path);
    file.write(text);
    file.commit();
}

std::string name_behind_temporary(std::string_view name) {
    const std::size_t at = name.rfind(mark);
    if (at == std::string_view::npos || at + mark.size() == name.size()) return {};
    const std::string_view number = name.substr(at + mark.size());
    const bool digits =
        std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
    return digits ? std::string(name.substr(0, at)) : std::string();
}

} // namespace towers
