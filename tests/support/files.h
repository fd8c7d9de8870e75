// Files and full disks for tests.
#pragma once

#include "backends/error.h"

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <vector>

namespace towers::test {

/// The source tree: TOWERS_SOURCE, which a machine that did not build the tests sets, else the one that was
/// built.
std::filesystem::path source_folder();

/// A new empty folder, which the destructor deletes with its contents.
class TemporaryFolder {
public:
    TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder();

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

void write_text(const std::filesystem::path& path, std::string_view text);
std::string read_text(const std::filesystem::path& path);

/// The names of the files in a folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// The message of the InputError that `action` throws, or "nothing was thrown". Checks that the message is
/// one line.
std::string input_error(const std::function<void()>& action);

/// During its lifetime no file can grow beyond this many bytes, not even for root: writing fails as on a full
/// disk.
class FullDisk {
public:
    explicit FullDisk(std::size_t bytes);
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;
    ~FullDisk();

private:
    rlimit limit_{};
    void (*handler_)(int);
};

} // namespace towers::test
