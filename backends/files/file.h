// Files through system calls, which report failures in the system's own words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace towers {

/// Owns an open file.
class FileDescriptor {
public:
    FileDescriptor() = default;
    explicit FileDescriptor(int number) : number_(number) {}
    FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    FileDescriptor& operator=(FileDescriptor other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~FileDescriptor() { close(); }

    int get() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }

    /// Closes and returns the error number, or 0. Some file systems report a full disk only here.
    int close();

    /// Gives the file away without closing it.
    int release() { return std::exchange(number_, -1); }

private:
    int number_ = -1;
};

/// A regular file open for reading.
class InputFile {
public:
    /// Throws InputError if the file is missing, not regular or not readable.
    explicit InputFile(const std::filesystem::path& path);

    /// The size in bytes when the file was opened.
    std::uint64_t size() const { return size_; }

    /// Fills `target` with the bytes from `offset` on. Throws InputError if the file is too short or the disk
    /// fails.
    void read(std::uint64_t offset, std::span<std::byte> target) const;

    /// The open file, for others to read it from its beginning.
    FileDescriptor release() && { return std::move(file_); }

private:
    std::filesystem::path path_;
    FileDescriptor file_;
    std::uint64_t size_ = 0;
};

/// Reads a whole regular file. Throws InputError as InputFile does.
std::string read_file(const std::filesystem::path& path);

/// Writes all of `bytes` at the file's position. Returns the error number, or 0.
int write_all(const FileDescriptor& file, std::span<const std::byte> bytes);

/// Writes a new file, which may not be on the disk before sync_file_system_of(). Throws InputError if there
/// is one or the disk fails.
void write_new_file(const std::filesystem::path& path, std::string_view bytes);

/// Returns once what was written to the folder's file system is on the disk. Throws InputError if that fails.
void sync_file_system_of(const std::filesystem::path& folder);

/// Throws the InputError "cannot VERB PATH: the system's words; what to do". `verb` is one of "read",
/// "write", "create", "delete" and their like; `error` is an errno.
[[noreturn]] void throw_file_error(std::string_view verb, const std::filesystem::path& path, int error);

} // namespace towers
