// Files and disks for tests.
#pragma once

#include "engine/error.h"

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <vector>

namespace towers::test {

/// The checkout: the one that was built, unless TOWERS_SOURCE names another, on a machine that did not build
/// it.
std::filesystem::path source_folder();

/// An empty folder of its own, deleted with all in it at the end.
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

/// File names in a folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// The message of the InputError that `action` throws, checked to be one line; "nothing was thrown"
/// otherwise.
std::string input_error(const std::function<void()>& action);

/// A disk on which no file grows beyond so many bytes, for root too: writing fails as on a full disk.
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
