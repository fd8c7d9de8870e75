#include "engine/data/picture_files.h"

#include "engine/error.h"
#include "engine/files/file.h"
#include "engine/files/png_file.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <system_error>
#include <vector>

namespace towers {

namespace fs = std::filesystem;

void write_picture_files(const DataSource& data, const fs::path& folder) {
    std::vector<fs::path> folders;
    for (std::string name : data.info().classes) {
        std::ranges::replace(name, '/', '_');
        if (name.empty() || name.starts_with('.')) name = fmt::format("_{}", name); // no hidden folder
        folders.push_back(folder / name);
        std::error_code error;
        fs::create_directories(folders.back(), error);
        if (error) throw_file_error("create", folders.back(), error.value());
    }
    const ImageSize size = data.image_size();
    const std::size_t plane = std::size_t(size.height) * size.width;
    std::vector<std::uint8_t> planes(size.elements()), pixels(size.elements());
    for (std::size_t i = 0; i < data.size(); ++i) {
        data.read(i, 1, planes);
        for (std::size_t k = 0; k < pixels.size(); ++k)
            pixels[k] = planes[k % size.channels * plane + k / size.channels];
        write_png(folders[data.labels()[i]] / fmt::format("{:06}.png", i),
                  {size.width, size.height, size.channels}, pixels);
    }
}

} // namespace towers
