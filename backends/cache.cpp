#include "backends/cache.h"

#include "backends/checksum.h"
#include "backends/files/atomic_file.h"

#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <span>
#include <system_error>

namespace towers {
namespace {

// A file's first line names its length and its checksum. A driver may crash on data that is damaged.
std::string describe(std::uint64_t bytes) { return fmt::format("towers cache 1 {:016x} ", bytes); }
std::string describe(std::string_view content) {
    Checksum checksum;
    checksum.add(std::as_bytes(std::span(content)));
    return describe(content.size()) + fmt::format("{:016x}\n", checksum.value());
}

/// Removes what writers of this file that were killed have left.
void remove_left(const std::filesystem::path& file) {
    const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
    std::error_code error; // another program may remove it, too
    for (std::filesystem::directory_iterator each(file.parent_path(), error), end; !error && each != end;
         each.increment(error)) {
        std::error_code gone;
        if (name_behind_temporary(each->path().filename().string()) == file.filename() &&
            each->last_write_time(gone) < old && !gone)
            std::filesystem::remove(each->path(), gone);
    }
}

} // namespace

std::filesystem::path cache_folder() {
    const char* const cache = std::getenv("XDG_CACHE_HOME");
    const char* const home = std::getenv("HOME");
    if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "towers";
    if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "towers";
    return {};
}

std::optional<std::string> read_cached(const std::filesystem::path& file) {
    static const std::size_t line = describe("").size();
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) return {}; // a pipe would be waited for
    std::ifstream stream(file, std::ios::binary | std::ios::ate);
    const std::streamoff bytes = stream.tellg(); // of the file that is open: another may take its place
    std::string description(line, '\0');
    if (!stream.seekg(0).read(description.data(), std::streamsize(line))) return {};
    if (!description.starts_with(describe(std::size_t(bytes) - line))) return {};
    std::string content(std::size_t(bytes) - line, '\0');
    if (!stream.read(content.data(), std::streamsize(content.size()))) return {};
    if (description != describe(content)) return {};
    return content;
}

void write_cached(const std::filesystem::path& file, std::string_view content) {
    std::error_code unknown; // opening the file will report it
    std::filesystem::create_directories(file.parent_path(), unknown);
    remove_left(file);
    AtomicFile written(file);
    written.write(describe(content));
    written.write(content);
    written.commit();
}

} // namespace towers
