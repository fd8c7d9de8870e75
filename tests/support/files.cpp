#include "tests/support/files.h"

#include <cstdlib>

#include <algorithm>
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <stdlib.h>

namespace towers::test {

namespace fs = std::filesystem;

std::filesystem::path source_folder() {
    const char* const elsewhere = std::getenv("TOWERS_SOURCE");
    return elsewhere != nullptr ? elsewhere : TOWERS_SOURCE_DIR;
}

TemporaryFolder::TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "towers-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder " + name);
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

void write_text(const fs::path& path, std::string_view text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_text(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path.string());
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::string input_error(const std::function<void()>& action) {
    try {
        action();
    } catch (const InputError& error) {
        const std::string message = error.what();
        CAPTURE(message);
        CHECK(message.find('\n') == std::string::npos);
        return message;
    }
    return "nothing was thrown";
}

FullDisk::FullDisk(std::size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) { // else the limit kills us
    if (::getrlimit(RLIMIT_FSIZE, &limit_) != 0) throw std::runtime_error("no file size limits");
    const rlimit small{bytes, limit_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) throw std::runtime_error("cannot limit file sizes");
}

FullDisk::~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, handler_);
}

} // namespace towers::test
