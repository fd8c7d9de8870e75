#include "engine/data/picture_files.h"

#include "backends/error.h"
#include "backends/files/file.h"
#include "engine/data/planes.h"
#include "engine/files/png_file.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace towers {

namespace fs = std::filesystem;

namespace {

bool is_number(const std::string& name) {
    return !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

} // namespace

std::vector<std::string> folder_names(const std::vector<std::string>& classes) {
    const bool numbers = std::ranges::all_of(classes, is_number);
    std::size_t longest = 0;
    for (const std::string& name : classes) longest = std::max(longest, name.size());
    std::vector<std::string> names;
    for (std::string name : classes) {
        std::ranges::replace(name, '/', '_');
        if (name.empty() || name.starts_with('.')) name = fmt::format("_{}", name); // no hidden folder
        if (numbers) name.insert(0, longest - name.size(), '0');
        names.push_back(std::move(name));
    }
    std::vector<std::string> sorted = names;
    std::ranges::sort(sorted);
    if (const auto same = std::ranges::adjacent_find(sorted); same != sorted.end())
        throw InputError(fmt::format("two classes would have the folder {}; give them other names", *same));
    return names;
}

void write_picture_files(const DataSource& data, const std::vector<std::string>& classes,
                         const fs::path& folder) {
    std::vector<fs::path> folders;
    for (const std::string& name : folder_names(classes)) folders.push_back(folder / name);
    const std::set<std::uint32_t> used(data.labels().begin(), data.labels().end());
    for (const std::uint32_t label : used) {
        std::error_code error;
        fs::create_directories(folders[label], error);
        if (error) throw_file_error("create", folders[label], error.value());
    }
    const ImageSize size = data.image_size();
    const std::size_t bytes = size.elements();
    std::vector<std::uint8_t> pixels(bytes);
    data.read_all([&](std::size_t first, std::span<const std::uint8_t> images) {
        for (std::size_t i = 0; i < images.size() / bytes; ++i) {
            to_pixels(images.subspan(i * bytes, bytes), size.channels, pixels);
            write_new_file(folders[data.labels()[first + i]] / fmt::format("{:06}.png", first + i),
                           encode_png({size.width, size.height, size.channels}, pixels));
        }
    });
    sync_file_system_of(folder); // once for all: to sync each file takes milliseconds
}

} // namespace towers
